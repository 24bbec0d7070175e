{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
What the operator may do in every namespace that it serves, in the order of group and resource so that nothing is missed or
repeated. A test compares it with operator/src/tandem_operator/kube/permissions.py.
*/}}
{{- define "tandem.servedRules" -}}
# Children: the engines' launch scripts.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, delete, get, list, patch, watch]
# Peer tables and routable labels are written to engine pods; `get` is only passed on to the front door's Role.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, patch, watch]
# Engines whose pairs keep failing are restarted.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# The key of each exchange. The operator can read no Secret: whether one exists it learns by creating it, in a dry run when
# it is the user's.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
# Children: the front door's account.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [create, delete, get, list, patch, watch]
# Children: the front door's Service and the engines' headless ones.
- apiGroups: [""]
  resources: [services]
  verbs: [create, delete, get, list, patch, watch]
# Children: what each revision's engines are made from.
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [create, delete, get, list, patch, watch]
# Children: front doors.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, delete, get, list, patch, watch]
# Children: engines.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [create, delete, get, list, patch, watch]
# Transitions are reported as Events on the resource.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
# Children: who may connect to engines.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, delete, get, list, patch, watch]
# Children: what evictions may take at one time.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, delete, get, list, patch, watch]
# Children: the front door discovers engines by listing pods.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [create, delete, get, list, patch, watch]
# Children. Neither `escalate` nor `bind`: the operator passes on only rights that it has itself.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles]
  verbs: [create, delete, get, list, patch, watch]
# The resources; never written.
- apiGroups: [tandem.dev]
  resources: [disaggregatedinferences]
  verbs: [get, list, watch]
# Children hold up their owner's foreground deletion, which OpenShift allows only so.
- apiGroups: [tandem.dev]
  resources: [disaggregatedinferences/finalizers]
  verbs: [update]
# Status.
- apiGroups: [tandem.dev]
  resources: [disaggregatedinferences/status]
  verbs: [patch]
# Children: what autoscalers turn.
- apiGroups: [tandem.dev]
  resources: [disaggregatedinferencescalers]
  verbs: [create, delete, get, list, patch, watch]
# Status.
- apiGroups: [tandem.dev]
  resources: [disaggregatedinferencescalers/status]
  verbs: [patch]
{{- end }}
