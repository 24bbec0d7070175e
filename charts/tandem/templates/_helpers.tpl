{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "tandem.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Name of the objects. 52 characters leave room for what is put behind it. */}}
{{- define "tandem.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "tandem.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tandem.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tandem.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tandem.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "tandem.labels" -}}
{{- include "tandem.labelsWith" (list . "tandem.selectorLabels" dict) }}
{{- end }}

{{/*
Labels of an object: list of the root context, the template of those that it is selected by, and the user's for this object.
Where two say the same key the chart wins: others refer to its labels.
*/}}
{{- define "tandem.labelsWith" -}}
{{- $root := index . 0 }}
{{- $selecting := fromYaml (include (index . 1) $root) }}
{{- $further := fromYaml (include "tandem.furtherLabels" $root) }}
{{- toYaml (merge (dict) $selecting $further (index . 2) $root.Values.commonLabels) }}
{{- end }}

{{- define "tandem.furtherLabels" -}}
app.kubernetes.io/part-of: tandem
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Of the pod that `helm test` runs: not those by which the Deployment, the Service and the budget know the operator's. */}}
{{- define "tandem.testLabels" -}}
app.kubernetes.io/name: {{ include "tandem.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: test
{{- end }}

{{- define "tandem.serviceAccountName" -}}
{{- $default := ternary (include "tandem.fullname" .) "default" .Values.serviceAccount.create }}
{{- default $default .Values.serviceAccount.name }}
{{- end }}

{{/* Name of the PriorityClass that is made for the operator. */}}
{{- define "tandem.priorityClass" -}}
{{- default (include "tandem.fullname" .) .Values.priorityClass.name }}
{{- end }}

{{/* Name of the PriorityClass that is made for engines. */}}
{{- define "tandem.enginePriorityClass" -}}
{{- default (printf "%s-engines" (include "tandem.fullname" .)) .Values.enginePriorityClass.name }}
{{- end }}

{{/* Reference of an image: list of the root context and the image's values. */}}
{{- define "tandem.image" -}}
{{- $root := index . 0 }}
{{- $image := index . 1 }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}
