package sim

import (
	"slices"

	"strandline/router"
)

// Integer is w as a fluid that costs what whole requests at random cost: in a
// processor-sharing region of rate mu n/(kappa+n) with Poisson arrivals and work of
// any distribution there are (kappa+1) rho/(1-rho) requests on average, where the
// fluid has kappa rho/(1-rho). So kappa+1 makes the optimum of static splits exact
// (derived; for kappa 0 it is M/M/1). Regions of other families stay as they are,
// since for those no such form is known.
func Integer(w *router.World) *router.World {
	out := *w
	out.Regions = slices.Clone(w.Regions)
	for j := range out.Regions {
		if s := &out.Regions[j].Service; s.Kind == router.KindHyperbolic {
			s.Kappa++
		}
	}
	return &out
}
