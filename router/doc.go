// Package router decides which region serves which request. It holds the
// routing problem (World), its optimum (Solve, a Plan), the controller that follows
// it (DGD), the immutable snapshot that servers answer from (Table), the reasons for
// one answer (Explanation) and the up/down state machine of a region (Health).
//
// # Model
//
// Frontend i receives lam_i requests per second and sends the share x_ij of
// them to region j, a one-way network delay tau_ij away. Region j has N_j
// requests inside and serves l_j(N_j) of them per second; l_j is increasing and
// concave, with the supremum mu_j (Service). By Little's law the mean latency is
// the number of requests in the system over the arrival rate, so the best
// allocation is the convex program
//
//	minimise   sum_j N_j + sum_ij lam_i c_ij x_ij
//	subject to sum_i lam_i x_ij = l_j(N_j),  x_i in the simplex over i's allowed regions
//
// which is the optimum that distributed gradient descent with delays reaches
// (arXiv 2504.10693). The network cost c_ij is tau_ij (objective.network oneway)
// or the round trip 2 tau_ij that a client sees (rtt). The price of a region is
// its marginal cost p_j = dN_j/dr_j = 1/l_j'(N_j), in seconds. At the optimum
// every region that a frontend uses has the same p_j + c_ij, and no allowed
// region has less. Rates, workloads, prices and the cost are unique; the shares
// often are not, since any cycle of used arcs can be rotated.
//
// A service-rate function belongs to a family (the kinds of Service) or runs
// through measured points; FitCurve and Fit find its parameters. World.Curve is
// what counts of a region: the requests inside, or for ObjectiveTTFT the weighted
// sum of those in prefill and all, within Region.MaxRateHz.
//
// Where requests differ the world has classes. A class has its own rates, hosts,
// work per request and price of being refused, and is one more row per frontend in
// the program above: r_j is the sum of rate, work and share over all rows. Rules
// (residency, limits, hosts) take arcs away, and keep the reason (Excluded). Money
// adds gamma seconds per dollar to the cost of an arc.
//
// Prices certify a plan: for any p, with r_j(p) the rate at which region j's
// price is p,
//
//	D(p) = sum_i lam_i min_j(c_ij + p_j) - sum_j (p_j r_j(p_j) - N_j(r_j(p_j)))
//
// is a lower bound of the cost (LowerBound), so (cost - D)/cost bounds how far
// from optimal a plan can be. Every Plan carries that gap.
//
// With shedding configured each frontend may also refuse requests at a constant
// price; then every demand is feasible and no region runs beyond the workload at
// which its price is that constant.
//
// # Control
//
// DGD is distributed gradient descent with delayed state: it moves one frontend's
// shares towards the optimum without asking anybody, between plans or without any.
// EtaMax is how large its step may be for the delays, which every Plan carries.
//
// # Answers
//
// A Table maps a client prefix to a frontend by longest prefix, and a hash of
// the client's /24 (IPv4) or /48 (IPv6) to a region by weighted rendezvous
// hashing of the frontend's shares. So an answer depends on the table and the
// client alone: two servers with the same table agree, and a new table moves few
// clients. Match.Scope is the prefix length that the answer holds for (RFC 7871).
//
// # Policies
//
// A Policy chooses a region for each request of one frontend. Policies lists those
// that exist, each with what it is allowed to see (Sight); the view that it is
// given holds nothing else. The same code runs in a router and in the simulators.
// SlotTable and Sessions keep sessions where they are while shares change; Hedge
// says when a duplicate against a straggler pays; EqualFinish, Knapsack, TrendShares
// and Diffuse are the split rules that stand alone.
//
// # Units
//
// Names end in their unit: RateHz requests per second, ...S seconds, ...MS
// milliseconds. Workloads are numbers of requests, shares are fractions of a
// frontend's demand. The fields of World keep the units of the world file.
//
// # What it does not do
//
// The package is pure: it reads no clock, opens no socket, starts no goroutine,
// draws chance only from a source that it is given, and reads no file. It measures
// nothing (latency rows come in through WorldFrom) and sends nothing.
package router
