package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// stateDir has one directory per lab that Run keeps up: state.json, what to
// clean up if that process dies, and control.sock, to talk to it.
const stateDir = "/run/strandline-lab"

// controlTimeout is how long the two ends of the control socket wait for each
// other; a lab takes well under a second to go down.
const controlTimeout = 10 * time.Second

// state is what a lab leaves behind if its process dies.
type state struct {
	Name       string   `json:"name"`
	PID        int      `json:"pid"`
	Namespaces []string `json:"namespaces"`
}

// request is one line from a client of the control socket: SetCable, or Down.
type request struct {
	A     string `json:"a,omitempty"`
	B     string `json:"b,omitempty"`
	Cable *Cable `json:"cable,omitempty"`
	Down  bool   `json:"down,omitempty"`
}

// response is the line that answers it.
type response struct {
	Error string `json:"error,omitempty"`
}

// Run builds the network, calls ready, and keeps it up until ctx ends or another
// process calls Down with its name; then it takes the network down. It is the
// body of a process of its own, since the delay cables live in it. The end of ctx
// is no error.
func Run(ctx context.Context, t Topology, ready func()) (err error) {
	if err := t.validate(); err != nil {
		return fmt.Errorf("lab %s: %w", t.Name, err)
	}
	if alive(t.Name) {
		return fmt.Errorf("lab %s: is up already: %w", t.Name, os.ErrExist)
	}
	if err := clean(t.Name); err != nil { // of a process that died
		return err
	}
	// Who asked the lab down waits for the end of its connection, which must come
	// after all else, or it could not have the lab up again at once.
	var asker net.Conn
	defer func() {
		if asker != nil {
			asker.Close()
		}
	}()
	l, err := Up(t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	if err := l.writeState(); err != nil {
		return fmt.Errorf("lab %s: %w", t.Name, err)
	}
	defer os.RemoveAll(stateOf(t.Name))
	control, err := net.Listen("unix", socketOf(t.Name))
	if err != nil {
		return fmt.Errorf("lab %s: %w", t.Name, err)
	}
	defer context.AfterFunc(ctx, func() { control.Close() })()
	defer control.Close()
	if ready != nil {
		ready()
	}
	asker, err = l.serve(ctx, control)
	return err
}

func stateOf(name string) string  { return filepath.Join(stateDir, name) }
func socketOf(name string) string { return filepath.Join(stateDir, name, "control.sock") }

// serve answers one client at a time until one wants the lab down, whose
// connection it returns, or ctx ends.
func (l *Lab) serve(ctx context.Context, control net.Listener) (asker net.Conn, err error) {
	for {
		conn, err := control.Accept()
		if ctx.Err() != nil {
			return conn, nil
		}
		if err != nil {
			return nil, fmt.Errorf("lab %s: %w", l.topo.Name, err)
		}
		if l.answer(conn) {
			return conn, nil
		}
		conn.Close()
	}
}

// answer serves one request and reports whether it was to go down.
func (l *Lab) answer(conn net.Conn) (down bool) {
	conn.SetDeadline(time.Now().Add(controlTimeout))
	var req request
	var resp response
	err := json.NewDecoder(conn).Decode(&req)
	switch {
	case err != nil:
	case req.Down:
		return true
	case req.Cable == nil:
		err = errors.New("request asks for nothing")
	default:
		err = l.SetCable(req.A, req.B, *req.Cable)
	}
	if err != nil {
		resp.Error = err.Error()
	}
	json.NewEncoder(conn).Encode(resp) // a client that has gone does not mind
	return false
}

func (l *Lab) writeState() error {
	if err := os.MkdirAll(stateOf(l.topo.Name), 0o755); err != nil {
		return err
	}
	b, err := json.Marshal(state{Name: l.topo.Name, PID: os.Getpid(), Namespaces: l.topo.namespaces()})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(stateOf(l.topo.Name), "state.json"), b, 0o644)
}

// ask sends a request to the process that keeps the lab up.
func ask(name string, req request) error {
	conn, err := net.DialTimeout("unix", socketOf(name), controlTimeout)
	if err != nil {
		return fmt.Errorf("lab %s: is not up: %w", name, err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(controlTimeout))
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return fmt.Errorf("lab %s: %w", name, err)
	}
	var resp response
	err = json.NewDecoder(conn).Decode(&resp)
	switch {
	case req.Down: // answered by the end of the connection
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("lab %s: %w", name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("lab %s: %w", name, err)
	case resp.Error != "":
		return fmt.Errorf("lab %s: %s", name, resp.Error)
	}
	return nil
}

// SetCable changes a cable of a lab that another process keeps up by Run.
func SetCable(name, a, b string, c Cable) error {
	if err := validName(name); err != nil {
		return err
	}
	return ask(name, request{A: a, B: b, Cable: &c})
}

// Down takes down a lab that another process keeps up by Run, and cleans up
// after one whose process has died. A lab that does not exist is an error that
// wraps os.ErrNotExist.
func Down(name string) error {
	if err := validName(name); err != nil {
		return err
	}
	if alive(name) {
		return ask(name, request{Down: true})
	}
	if _, err := os.Stat(stateOf(name)); err != nil {
		return fmt.Errorf("lab %s: %w", name, err)
	}
	return clean(name)
}

// alive reports whether a process listens for the lab.
func alive(name string) bool {
	conn, err := net.DialTimeout("unix", socketOf(name), controlTimeout)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// clean removes what a lab's dead process left behind, if anything.
func clean(name string) error {
	b, err := os.ReadFile(filepath.Join(stateOf(name), "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lab %s: %w", name, err)
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("lab %s: state.json: %w", name, err)
	}
	return errors.Join(removeAll(s.Namespaces), os.RemoveAll(stateOf(name)))
}

// List returns the names of the labs that Run keeps up, and of those whose
// process has died without cleaning up.
func List() ([]string, error) {
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("labs: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}
