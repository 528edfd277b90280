package simbackend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"strandline/internal/simbackend"
)

func newBackend(t *testing.T, o simbackend.Options) *simbackend.Backend {
	t.Helper()
	b, err := simbackend.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// post sends a request straight to the handler and returns when it is answered.
func post(ctx context.Context, h http.Handler, path, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body)))
	return rec
}

const unitChat = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":16}`

// near reports whether got is want within rel, the rounding of timers to 1 ns included.
func near(got, want, rel float64) bool { return math.Abs(got-want) <= rel*math.Abs(want) }

func TestOneRequestAloneTakesItsServiceTime(t *testing.T) {
	tests := []struct {
		name  string
		opts  simbackend.Options
		body  string
		wantS float64
	}{
		{"unit of work takes 1/l(1)", simbackend.Options{MuHz: 10, Kappa: 10}, unitChat, 11.0 / 10},
		{"M/M/1", simbackend.Options{MuHz: 4}, unitChat, 1.0 / 4},
		{"twice the tokens", simbackend.Options{MuHz: 10, Kappa: 10}, `{"messages":[],"max_tokens":32}`, 2.2},
		{"newer name of the limit", simbackend.Options{MuHz: 10, Kappa: 10}, `{"messages":[],"max_completion_tokens":8}`, 0.55},
		{"no limit given", simbackend.Options{MuHz: 10, Kappa: 10}, `{"messages":[]}`, 1.1},
		{"token time given", simbackend.Options{MuHz: 10, Kappa: 10, TokenTime: 20 * time.Millisecond}, unitChat, 0.32},
		{"prompt of 2 tokens", simbackend.Options{MuHz: 10, Kappa: 10, TokenTime: 20 * time.Millisecond, PromptTokenTime: time.Second},
			`{"messages":["abc"],"max_tokens":10}`, 2 + 0.2},
		{"streamed", simbackend.Options{MuHz: 10, Kappa: 10}, `{"messages":[],"max_tokens":16,"stream":true}`, 1.1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, start := newBackend(t, tt.opts), time.Now()
				rec := post(t.Context(), b, "/v1/chat/completions", tt.body)
				if got := time.Since(start).Seconds(); rec.Code != 200 || !near(got, tt.wantS, 1e-6) {
					t.Errorf("status %d after %v s, want 200 after %v s", rec.Code, got, tt.wantS)
				}
			})
		})
	}
}

// TestThroughputFollowsRateLaw keeps N requests running for a long time and
// counts the finished: l(N) = mu N / (kappa + N).
func TestThroughputFollowsRateLaw(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, n := range []int{1, 2, 7, 40} {
			t.Run(fmt.Sprintf("N=%d stream=%t", n, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const muHz, kappa, seconds = 10.0, 10.0, 400
					b := newBackend(t, simbackend.Options{MuHz: muHz, Kappa: kappa})
					body := strings.Replace(unitChat, "{", fmt.Sprintf(`{"stream":%t,`, stream), 1)
					ctx, cancel := context.WithCancel(t.Context())
					for i := range n {
						go func() {
							// Shifted starts, so that finishes do not come in one burst.
							time.Sleep(time.Duration(i) * 37 * time.Millisecond)
							for ctx.Err() == nil {
								post(ctx, b, "/v1/chat/completions", body)
							}
						}()
					}
					time.Sleep(20 * time.Second)
					before := b.Stats()
					time.Sleep(seconds * time.Second)
					after := b.Stats()
					cancel()
					synctest.Wait()
					got := float64(after.Finished-before.Finished) / seconds
					want := muHz * float64(n) / (kappa + float64(n))
					if math.Abs(got-want) > float64(n)/seconds { // at most N are unfinished at either end
						t.Errorf("throughput %v/s, want %v/s", got, want)
					}
					if after.Running != n {
						t.Errorf("%d running, want %d", after.Running, n)
					}
					end := b.Stats()
					if end.Running != 0 || end.Cancelled != uint64(n) || end.Requests != end.Finished+end.Cancelled {
						t.Errorf("after the clients left: %+v, want 0 running and %d cancelled", end, n)
					}
				})
			})
		}
	}
}

// TestLateArrivalSlowsAndCancelFrees follows the one line of arithmetic that a
// change of N in mid-request is: mu 10, kappa 10, so the pace is 10/11 work/s
// alone and 10/12 with company.
func TestLateArrivalSlowsAndCancelFrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := newBackend(t, simbackend.Options{MuHz: 10, Kappa: 10}), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(300 * time.Millisecond)
			time.AfterFunc(500*time.Millisecond, cancel)
			post(ctx, b, "/v1/completions", `{"prompt":"x","max_tokens":16000}`)
		}()
		post(t.Context(), b, "/v1/chat/completions", unitChat)
		workLeft := 1 - 0.3*10/11 - 0.5*10/12
		want := 0.8 + workLeft*11/10
		if got := time.Since(start).Seconds(); !near(got, want, 1e-6) {
			t.Errorf("took %v s, want %v s", got, want)
		}
		if s := b.Stats(); s.Running != 0 || s.Cancelled != 1 || s.Finished != 1 {
			t.Errorf("got %+v, want 1 cancelled, 1 finished, none running", s)
		}
	})
}

func TestLimitMakesRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t, simbackend.Options{MuHz: 10, Kappa: 10, MaxRunning: 2})
		ctx, leave := context.WithCancel(t.Context())
		for range 4 {
			go post(t.Context(), b, "/v1/chat/completions", unitChat)
		}
		synctest.Wait()
		go post(ctx, b, "/v1/chat/completions", unitChat)
		synctest.Wait()
		if s := b.Stats(); s.Running != 2 || s.Waiting != 3 {
			t.Errorf("got %d running and %d waiting, want 2 and 3", s.Running, s.Waiting)
		}
		leave()
		synctest.Wait()
		if s := b.Stats(); s.Waiting != 2 || s.Cancelled != 1 {
			t.Errorf("got %d waiting and %d cancelled, want 2 and 1", s.Waiting, s.Cancelled)
		}
		time.Sleep(1200*time.Millisecond + time.Microsecond) // 1 unit each at l(2)/2
		synctest.Wait()
		if s := b.Stats(); s.Running != 2 || s.Waiting != 0 || s.Finished != 2 {
			t.Errorf("got %+v, want 2 running, 0 waiting, 2 finished", s)
		}
		time.Sleep(time.Hour)
		if s := b.Stats(); s.Running != 0 || s.Finished != 4 {
			t.Errorf("got %+v, want 4 finished", s)
		}
	})
}

// TestTokensComeOneByOne reads a stream as it is written and checks when each
// event came: token k at k/16 of the service time.
func TestTokensComeOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := newBackend(t, simbackend.Options{MuHz: 10, Kappa: 10}), time.Now()
		w := &stamped{ResponseRecorder: httptest.NewRecorder()}
		body := `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`
		b.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
		if len(w.times) != 16 {
			t.Fatalf("%d flushes, want 16", len(w.times))
		}
		for k, at := range w.times {
			if got, want := at.Sub(start).Seconds(), 1.1*float64(k+1)/16; !near(got, want, 1e-6) {
				t.Errorf("token %d at %v s, want %v s", k, got, want)
			}
		}
	})
}

type stamped struct {
	*httptest.ResponseRecorder
	times []time.Time
}

func (s *stamped) Flush() { s.times = append(s.times, time.Now()) }

// TestStreamAndWholeSayTheSame compares the text of the two forms, and both
// with those of other seeds and prompts.
func TestStreamAndWholeSayTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
			b := newBackend(t, simbackend.Options{MuHz: 10, Seed: 1})
			whole := content(t, post(t.Context(), b, path, `{"messages":["a"],"prompt":"a"}`).Body.String())
			stream := post(t.Context(), b, path, `{"messages":["a"],"prompt":"a","stream":true}`).Body.String()
			var joined strings.Builder
			events := strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n")
			for _, e := range events[:len(events)-1] {
				joined.WriteString(content(t, strings.TrimPrefix(e, "data: ")))
			}
			if joined.String() != whole || len(strings.Fields(whole)) != simbackend.DefaultTokens {
				t.Errorf("%s: stream says %q, want %q of 16 words", path, joined.String(), whole)
			}
			if last := events[len(events)-1]; last != "data: [DONE]" {
				t.Errorf("%s: last event %q, want data: [DONE]", path, last)
			}
			if other := content(t, post(t.Context(), b, path, `{"messages":["b"],"prompt":"b"}`).Body.String()); other == whole {
				t.Errorf("%s: another prompt got the same text %q", path, other)
			}
			seeded := newBackend(t, simbackend.Options{MuHz: 10, Seed: 2})
			if other := content(t, post(t.Context(), seeded, path, `{"messages":["a"],"prompt":"a"}`).Body.String()); other == whole {
				t.Errorf("%s: another seed got the same text %q", path, other)
			}
		}
	})
}

// content returns the text in a response or chunk of either call.
func content(t *testing.T, body string) string {
	t.Helper()
	var c struct {
		Choices []struct {
			Text           string
			Message, Delta struct{ Content string }
		}
	}
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	var s strings.Builder
	for _, ch := range c.Choices {
		s.WriteString(ch.Text + ch.Message.Content + ch.Delta.Content)
	}
	return s.String()
}

func TestUsageComesWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t, simbackend.Options{MuHz: 10})
		const want = `"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":3,"total_tokens":4}}`
		for asked, n := range map[string]int{"": 0, `,"stream_options":{"include_usage":true}`: 1} {
			got := post(t.Context(), b, "/v1/completions", `{"prompt":"x","max_tokens":3,"stream":true`+asked+`}`).Body.String()
			if strings.Count(got, want) != n {
				t.Errorf("asked %q: stream is %s, want %d times %s", asked, got, n, want)
			}
		}
	})
}

func TestHealthModelsAndMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t, simbackend.Options{MuHz: 10, Region: "fra", Model: "m"})
		get := func(path string) *httptest.ResponseRecorder {
			rec := httptest.NewRecorder()
			b.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
			return rec
		}
		for _, healthy := range []bool{true, false, true} {
			b.SetHealthy(healthy)
			if got, want := get("/health").Code == 200, healthy; got != want {
				t.Errorf("healthy is %t, want %t", got, want)
			}
		}
		if got := get("/v1/models").Body.String(); !strings.Contains(got, `"id":"m"`) {
			t.Errorf("models are %s, want m", got)
		}
		go post(t.Context(), b, "/v1/completions", `{"prompt":"12345678","max_tokens":3}`)
		synctest.Wait()
		got := get("/metrics").Body.String()
		for _, want := range []string{
			"# TYPE vllm:num_requests_running gauge\n",
			`vllm:num_requests_running{model_name="m",region="fra"} 1` + "\n",
			`vllm:num_requests_waiting{model_name="m",region="fra"} 0` + "\n",
			`vllm:prompt_tokens_total{model_name="m",region="fra"} 3` + "\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("metrics are\n%s\nwant a line %q", got, want)
			}
		}
	})
}

func TestBadRequestsAreRefused(t *testing.T) {
	b := newBackend(t, simbackend.Options{MuHz: 10})
	for _, tt := range []struct{ path, body, want string }{
		{"/v1/completions", `{"prompt":`, "unexpected end of JSON"},
		{"/v1/completions", `{"messages":[]}`, "neither messages"},
		{"/v1/completions", `{"prompt":"x","max_tokens":0}`, "max_tokens is 0"},
		{"/v1/chat/completions", `{"messages":[],"max_completion_tokens":1048577}`, "want 1 to 1048576"},
	} {
		rec := post(t.Context(), b, tt.path, tt.body)
		if rec.Code != 400 || !strings.Contains(rec.Body.String(), tt.want) || !strings.HasPrefix(rec.Body.String(), `{"error":{`) {
			t.Errorf("%s %s: %d %s, want 400 and %q", tt.path, tt.body, rec.Code, rec.Body, tt.want)
		}
	}
	if s := b.Stats(); s.Requests != 0 {
		t.Errorf("%d requests counted, want 0", s.Requests)
	}
}

func TestNewNamesEveryBadOption(t *testing.T) {
	_, err := simbackend.New(simbackend.Options{Region: "x", MuHz: math.NaN(), Kappa: -1, TokenTime: -1, MaxRunning: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`simbackend "x"`, "MuHz is NaN", "Kappa is -1", "options TokenTime and PromptTokenTime", "MaxRunning is -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error is %q, want it to name %q", err, want)
		}
	}
}
