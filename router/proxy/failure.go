package proxy

import (
	"encoding/json"
	"net/http"
)

// failure is an answer of the proxy's own; its text is the code in the answer.
type failure string

const (
	failUnreadable       failure = "body_unreadable"
	failMethod           failure = "method_not_allowed"
	failTooLarge         failure = "body_too_large"
	failShed             failure = "shed"
	failConnect          failure = "connect_failed"
	failBackend          failure = "backend_failed"
	failNoTable          failure = "no_table"
	failNoRegion         failure = "no_region"
	failCancelled        failure = "cancelled"
	failConnectTimeout   failure = "connect_timeout"
	failFirstByteTimeout failure = "first_byte_timeout"
)

// describe gives a failure's status, message and type; the types are those of
// OpenAI's errors.
func (f failure) describe() (status int, message, kind string) {
	const client, server, rate = "invalid_request_error", "server_error", "rate_limit_error"
	switch f {
	case failUnreadable:
		return http.StatusBadRequest, "the request body broke off", client
	case failMethod:
		return http.StatusMethodNotAllowed, "CONNECT is not offered", client
	case failTooLarge:
		return http.StatusRequestEntityTooLarge, "the request body is larger than this server takes", client
	case failShed:
		return http.StatusTooManyRequests, "demand exceeds what is worth serving; try again", rate
	case failConnect:
		return http.StatusBadGateway, "no region could be connected to", server
	case failConnectTimeout:
		return http.StatusGatewayTimeout, "no region could be connected to in time", server
	case failFirstByteTimeout:
		return http.StatusGatewayTimeout, "the region did not begin to answer in time", server
	case failNoTable:
		return http.StatusServiceUnavailable, "no allocation is known yet", server
	case failNoRegion:
		return http.StatusServiceUnavailable, "no region may serve this request", server
	case failCancelled:
		return http.StatusServiceUnavailable, "the request was cancelled", server
	}
	return http.StatusBadGateway, "the region failed before it answered", server
}

// retryAfterS is the Retry-After of failures that pass: by then a new table may
// be out.
const retryAfterS = "1"

// write sends the failure in the shape of OpenAI's errors.
func (f failure) write(w http.ResponseWriter) {
	type object struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	}
	status, message, kind := f.describe()
	// Strings only, so this cannot fail.
	body, _ := json.Marshal(struct {
		Error object `json:"error"`
	}{object{message, kind, string(f)}})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		h.Set("Retry-After", retryAfterS)
	}
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// refuse answers a request that no region was asked for.
func (p *Proxy) refuse(w http.ResponseWriter, f failure) {
	p.refused.Add(1)
	f.write(w)
}
