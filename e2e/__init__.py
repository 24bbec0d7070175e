# SPDX-License-Identifier: Apache-2.0
"""What is needed to see Tandem work as a whole: a cluster, images, engines, a demo and the tests that use them."""
