# SPDX-License-Identifier: Apache-2.0
"""`kubectl tandem`: what people ask of resources and of the cluster.

It is of the operator's distribution, since it shows by the operator's own planner and models what that operator sees and would do. The
operator's image has no more of it than these modules: `rich` is an extra, `tandem-operator[kubectl]`.

`views` is pure: it makes of observed objects what is to be told, as models that are also the JSON. `terminal` draws views for people.
`ui` serves a page of them. `reading` and `commands` are the thin rest.
"""
