// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/coredns/coredns/coremain"

	// The plugins that answer for cluster.local, and no others: pods have no way out of the machine.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func runCoreDNS() {
	coremain.Run()
}
