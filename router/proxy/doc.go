// Package proxy is the HTTP data plane of the router: it passes each request of
// one frontend to a region, chosen by the allocation of the current
// router.Table, and the answer back.
//
// # Choice
//
// Each request draws a fresh random number, so over many requests the regions
// get the shares of the table. A client that sends X-Strandline-Session is
// hashed by its value instead: while the shares stay, so does its region, and a
// change of shares moves few sessions (the table's rendezvous hashing). The
// decision takes no lock and allocates nothing.
//
// A region that cannot be connected to is replaced once by the next candidate
// for the same hash. This happens only as long as no connection was
// established: then no byte of the request has been read from the client, so
// whole bodies of any size move without having been buffered, and no request is
// ever sent twice (RFC 9110, section 9.2.2 forbids a proxy to repeat a POST).
// Any later failure is reported to the client.
//
// # What passes
//
// Everything that is not a hop-by-hop header (RFC 9110, section 7.6.1): method,
// target, headers, body, trailers, and upgraded connections, byte for byte in
// both directions. Bodies are never parsed, so unknown paths and fields pass as
// the OpenAI ones do. Each piece of a response is sent on as it arrives, and a
// client that leaves cancels its request at the backend. The request names the
// backend in Host and gains Via and X-Forwarded-For, -Host and -Proto, which
// replace what the client sent under these names; the response gains
//
//	X-Strandline-Region   the region that answered, or that was asked last where none did
//	X-Strandline-Epoch    the epoch of the table that decided
//
// Failures of the proxy's own have the JSON shape of OpenAI's errors,
// {"error":{"message","type","code"}}:
//
//	400 body_unreadable      the client's body broke off
//	405 method_not_allowed   CONNECT
//	413 body_too_large
//	429 shed                 the allocation refuses this request; with Retry-After
//	502 connect_failed, backend_failed
//	503 no_table, no_region, cancelled; with Retry-After
//	504 connect_timeout, first_byte_timeout
//
// A response that breaks off half way is cut, never ended as if it were whole. One
// that begins while an HTTP/1 client still sends its body ends that client's
// connection, since nothing else keeps the two apart from the next request.
//
// # What it does not do
//
// It checks no health (regions that are down come with the table), computes no
// shares, limits no rates, keeps no body and logs none.
package proxy
