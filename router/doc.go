// Package router decides which region serves which request. It holds the
// routing problem (World), its optimum (Solve, a Plan), the immutable snapshot
// that servers answer from (Table), the reasons for one answer (Explanation)
// and the up/down state machine of a region (Health).
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
// # Answers
//
// A Table maps a client prefix to a frontend by longest prefix, and a hash of
// the client's /24 (IPv4) or /48 (IPv6) to a region by weighted rendezvous
// hashing of the frontend's shares. So an answer depends on the table and the
// client alone: two servers with the same table agree, and a new table moves few
// clients. Match.Scope is the prefix length that the answer holds for (RFC 7871).
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
// draws no random number and reads no file. It measures nothing (latency rows
// come in through WorldFrom) and sends nothing.
package router
