// SPDX-License-Identifier: Apache-2.0

// What Argo CD's own code makes of objects: their health by the scripts of a ConfigMap, and whether Git and cluster differ.
//
// Standard input is one JSON document, `{"configMap": {...}, "objects": [...], "pairs": [...]}`; standard output another,
// `{"health": [...], "differ": [...]}`, in the order of objects and pairs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/argo/diff"
	"github.com/argoproj/argo-cd/v3/util/argo/normalizers"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/argo-cd/v3/util/settings"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
)

type question struct {
	ConfigMap corev1.ConfigMap            `json:"configMap"`
	Objects   []unstructured.Unstructured `json:"objects"`
	Pairs     []pair                      `json:"pairs"`
}

type pair struct {
	Git     unstructured.Unstructured            `json:"git"`
	Live    unstructured.Unstructured            `json:"live"`
	Ignored []v1alpha1.ResourceIgnoreDifferences `json:"ignoreDifferences"`
}

type answer struct {
	Health []shown `json:"health"`
	Differ []bool  `json:"differ"`
}

type shown struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Error   string `json:"error"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	overrides, err := overridesOf(asked.ConfigMap)
	if err != nil {
		return fmt.Errorf("the ConfigMap: %w", err)
	}
	said := answer{Health: []shown{}, Differ: []bool{}}
	for i := range asked.Objects {
		said.Health = append(said.Health, healthOf(&asked.Objects[i], overrides))
	}
	for i := range asked.Pairs {
		differs, err := differ(&asked.Pairs[i], overrides)
		if err != nil {
			return fmt.Errorf("pair %d: %w", i, err)
		}
		said.Differ = append(said.Differ, differs)
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

// As Argo CD's controller reads them from its ConfigMap, which it knows by a label.
func overridesOf(configMap corev1.ConfigMap) (map[string]v1alpha1.ResourceOverride, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ours := map[string]string{"app.kubernetes.io/part-of": "argocd"}
	configMap.Labels = ours
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "argocd-secret", Namespace: configMap.Namespace, Labels: ours}}
	cluster := fake.NewClientset(&configMap, &secret)
	return settings.NewSettingsManager(ctx, cluster, configMap.Namespace).GetResourceOverrides()
}

func healthOf(object *unstructured.Unstructured, overrides map[string]v1alpha1.ResourceOverride) shown {
	health, err := lua.ResourceHealthOverrides(overrides).GetResourceHealth(object)
	switch {
	case err != nil:
		return shown{Error: err.Error()}
	case health == nil:
		return shown{}
	default:
		return shown{Status: string(health.Status), Message: health.Message}
	}
}

func differ(both *pair, overrides map[string]v1alpha1.ResourceOverride) (bool, error) {
	config, err := diff.NewDiffConfigBuilder().
		WithDiffSettings(both.Ignored, overrides, false, normalizers.IgnoreNormalizerOpts{}).
		WithTracking("", string(v1alpha1.TrackingMethodAnnotation)).
		WithNoCache().
		Build()
	if err != nil {
		return false, err
	}
	result, err := diff.StateDiff(&both.Live, &both.Git, config)
	return result.Modified, err
}
