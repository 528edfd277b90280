// Package simbackend stands in for an inference engine of one region: an HTTP
// handler with the OpenAI paths that the router sends requests to, and the load
// gauges of vLLM. It lets the router, the daemon and the demonstration run
// against backends whose truth is known.
//
// # Model
//
// Egalitarian processor sharing with the hyperbolic service rate of the fluid
// model: N running requests together finish
//
//	l(N) = mu N / (kappa + N)   requests per second
//
// (arXiv 2504.10693), each progressing at l(N)/N. A request alone takes the time
// of its tokens, prompt and output; among N it is slower by (kappa+N)/(kappa+1).
// With TokenTime left at zero a request of DefaultTokens output tokens is one
// unit of work: alone it takes 1/l(1).
//
// The number of output tokens is what the request asks for (max_tokens or
// max_completion_tokens), their text is a function of the seed and the prompt.
// A streamed request gets each token when it has been worked out. A client that
// leaves frees its share at once.
//
// # Paths
//
//	POST /v1/chat/completions, /v1/completions   with and without "stream": true
//	GET  /v1/models, /health, /metrics
//
// The clock is package time, so it runs in a testing/synctest bubble. The
// package does not model batching steps, a cache of keys and values or variance
// of service times.
package simbackend
