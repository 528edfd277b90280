package simbackend

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxBodyBytes is the largest request body read.
const maxBodyBytes = 32 << 20

// maxTokens is the most output tokens of a request, the largest context that
// published models have.
const maxTokens = 1 << 20

// api tells the two completions calls apart, which differ in a few names.
type api struct {
	idPrefix, object, chunkObject string
}

var (
	chat = api{"chatcmpl-", "chat.completion", "chat.completion.chunk"}
	text = api{"cmpl-", "text_completion", "text_completion"}
)

// request holds what the engine reads of a completions request; other keys are
// allowed and ignored.
type request struct {
	Model         string          `json:"model"`
	Messages      json.RawMessage `json:"messages"`
	Prompt        json.RawMessage `json:"prompt"`
	MaxTokens     *int            `json:"max_tokens"`
	MaxCompletion *int            `json:"max_completion_tokens"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// completion is a response, or a chunk of one, of either call.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index   int      `json:"index"`
	Text    *string  `json:"text,omitempty"`    // completions
	Message *message `json:"message,omitempty"` // chat, whole
	Delta   *message `json:"delta,omitempty"`   // chat, chunk
	Finish  *string  `json:"finish_reason"`
}

type message struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// reply is one completion under way.
type reply struct {
	b       *Backend
	api     api
	req     request
	id      string
	created int64
	seed    uint64 // of this request's text
	usage   usage
	job     job
}

// complete serves one completions request.
func (b *Backend) complete(w http.ResponseWriter, r *http.Request, a api) {
	c, err := b.newReply(w, r, a)
	if err != nil {
		refuse(w, err)
		return
	}
	b.prompted.Add(uint64(c.usage.Prompt))
	b.engine.add(&c.job)
	defer b.engine.remove(&c.job)
	if c.req.Stream {
		c.stream(w, r)
	} else {
		c.whole(w, r)
	}
}

// newReply reads the request and sizes its work.
func (b *Backend) newReply(w http.ResponseWriter, r *http.Request, a api) (*reply, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	c := &reply{b: b, api: a, created: time.Now().Unix()}
	if err := json.Unmarshal(body, &c.req); err != nil {
		return nil, fmt.Errorf("body is not a completions request: %w", err)
	}
	prompt := c.req.Messages
	if a == text {
		prompt = c.req.Prompt
	}
	if len(prompt) == 0 {
		return nil, errors.New("neither messages (chat) nor prompt (completions) given")
	}
	tokens := DefaultTokens
	for _, n := range []*int{c.req.MaxTokens, c.req.MaxCompletion} {
		if n != nil {
			tokens = *n
		}
	}
	if tokens < 1 || tokens > maxTokens {
		return nil, fmt.Errorf("max_tokens is %d, want 1 to %d", tokens, maxTokens)
	}
	hash := fnv.New64a()
	hash.Write(prompt)
	c.seed = b.opts.Seed ^ hash.Sum64()
	c.id = fmt.Sprintf("%s%d", a.idPrefix, b.serial.Add(1))
	if c.req.Model == "" {
		c.req.Model = b.opts.Model
	}
	prompted := (len(prompt) + 3) / 4
	c.usage = usage{prompted, tokens, prompted + tokens}
	c.job = b.newJob(prompted, tokens, c.req.Stream)
	return c, nil
}

// newJob is the work of a request: an event per token when it streams, one at
// the end otherwise.
func (b *Backend) newJob(prompted, tokens int, stream bool) job {
	batch := tokens
	if stream {
		batch = 1
	}
	step := float64(batch) * b.tokenReq
	return job{first: float64(prompted)*b.promptReq + step, step: step, batch: batch, tokens: tokens}
}

// whole answers in one piece once all tokens are there.
func (c *reply) whole(w http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
		return
	case <-c.job.wake:
	}
	var s strings.Builder
	for i := range c.job.tokens {
		s.WriteString(token(c.seed, i))
	}
	content, length := s.String(), "length"
	out := choice{Finish: &length}
	if c.api == chat {
		out.Message = &message{"assistant", content}
	} else {
		out.Text = &content
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(c.envelope(c.api.object, &c.usage, out))
}

// stream answers with one server-sent event per token, as they come.
func (c *reply) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flusher := http.NewResponseController(w)
	for sent := 0; sent < c.job.tokens; {
		select {
		case <-r.Context().Done():
			return
		case <-c.job.wake:
		}
		for done := c.b.engine.progress(&c.job); sent < done; sent++ {
			if c.event(w, nil, c.chunk(sent)) != nil {
				return
			}
		}
		if sent == c.job.tokens {
			c.end(w)
		}
		if flusher.Flush() != nil {
			return
		}
	}
}

// chunk is token i as it appears in a stream.
func (c *reply) chunk(i int) choice {
	s := token(c.seed, i)
	if c.api == text {
		return choice{Text: &s}
	}
	delta := &message{Content: s}
	if i == 0 {
		delta.Role = "assistant"
	}
	return choice{Delta: delta}
}

// end writes the events after the last token: the reason, the usage if the
// client asked for it, and the mark of the end.
func (c *reply) end(w io.Writer) {
	length, empty := "length", ""
	last := choice{Finish: &length, Delta: &message{}}
	if c.api == text {
		last = choice{Finish: &length, Text: &empty}
	}
	c.event(w, nil, last)
	if c.req.StreamOptions.IncludeUsage {
		c.event(w, &c.usage)
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

// event writes one server-sent event.
func (c *reply) event(w io.Writer, u *usage, choices ...choice) error {
	data, err := json.Marshal(c.envelope(c.api.chunkObject, u, choices...))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "data: %s\n\n", data)
	return err
}

func (c *reply) envelope(object string, u *usage, choices ...choice) completion {
	if choices == nil {
		choices = []choice{} // [] and not null, as clients expect
	}
	return completion{c.id, object, c.created, c.req.Model, choices, u}
}

// words are what the text is made of.
var words = [...]string{"tide", "sand", "shell", "wave", "kelp", "foam", "gull", "drift",
	"salt", "reef", "dune", "moon", "ebb", "flow", "shore", "stone"}

// token returns token i of the text of seed, with the space before it.
func token(seed uint64, i int) string {
	// The finaliser of SplitMix64 (Steele, Lea, Flood 2014) on a Weyl sequence.
	x := seed + uint64(i+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	word := words[(x^x>>31)%uint64(len(words))]
	if i == 0 {
		return word
	}
	return " " + word
}

func (b *Backend) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		OwnedBy string `json:"owned_by"`
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{{b.opts.Model, "model", b.opts.Region}}})
}

// refuse answers a malformed request in the OpenAI error shape.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": err.Error(), "type": "invalid_request_error", "code": nil,
	}})
}
