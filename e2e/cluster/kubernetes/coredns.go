// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/coredns/coredns/coremain"

	// The plugins that cluster.local and the way out to the host's resolver need, and no others.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
)

func runCoreDNS() {
	coremain.Run()
}
