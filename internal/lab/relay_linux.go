package lab

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	frameSize        = 2048 // an Ethernet frame of the usual MTU, with room
	readsAtATime     = 64   // frames taken from one end before the others have their turn
	realtimePriority = 50
)

// openTAP makes a TAP device in the namespace of the calling thread. Its
// descriptor works from any namespace; closing it removes the device.
func openTAP(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("tap %s: /dev/net/tun: %w", name, err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("tap %s: %w", name, err)
	}
	return fd, nil
}

// plugged is one end of a cable: frames read from in leave at out.
type plugged struct {
	in, out int
	link    int       // index of the cable's link
	last    time.Time // when the last frame of this direction is due
}

// frame is one Ethernet frame under way.
type frame struct {
	due   time.Time
	order uint64
	out   int
	data  []byte
}

type frames []frame

func (f frames) Len() int { return len(f) }
func (f frames) Less(i, j int) bool {
	if c := f[i].due.Compare(f[j].due); c != 0 {
		return c < 0
	}
	return f[i].order < f[j].order
}
func (f frames) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *frames) Push(x any)   { *f = append(*f, x.(frame)) }
func (f *frames) Pop() any {
	old := *f
	last := old[len(old)-1]
	old[len(old)-1] = frame{}
	*f = old[:len(old)-1]
	return last
}

// relay carries the frames of all cables of a lab. One thread does it, in one
// loop around ppoll: at a frame each few microseconds one core is enough, and
// there is nothing to lock but the settings.
type relay struct {
	mu     sync.Mutex
	cables map[int]Cable // by index of the link

	ends    []plugged
	wake    int // eventfd that ends the loop
	done    chan struct{}
	started bool
	closing sync.Once

	// Of the loop only.
	queue  frames
	free   [][]byte
	orders uint64
	rand   *rand.Rand
}

func newRelay() *relay {
	return &relay{
		cables: map[int]Cable{}, wake: -1, done: make(chan struct{}),
		rand: rand.New(rand.NewPCG(1, 2)), // which frames are lost need not be secret
	}
}

// add takes over the descriptors of a cable's two ends. Before start only.
func (r *relay) add(link, a, b int, c Cable) {
	r.cables[link] = c
	r.ends = append(r.ends, plugged{in: a, out: b, link: link}, plugged{in: b, out: a, link: link})
}

func (r *relay) set(link int, c Cable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cables[link] = c
}

func (r *relay) cable(link int) Cable {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cables[link]
}

// start begins to carry frames.
func (r *relay) start() error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	r.wake, r.started = wake, true
	go func() {
		defer close(r.done)
		runtime.LockOSThread() // never unlocked: the thread ends with its priority
		// Both are refinements: without them frames are late by some 50 µs more.
		unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: realtimePriority}, 0)
		unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		r.loop()
	}()
	return nil
}

// close ends the loop, waits for it and closes the devices. It may be called twice.
func (r *relay) close() {
	r.closing.Do(func() {
		if r.started {
			unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
			<-r.done
			unix.Close(r.wake)
		}
		for _, e := range r.ends {
			unix.Close(e.in)
		}
	})
}

func (r *relay) loop() {
	polls := []unix.PollFd{{Fd: int32(r.wake), Events: unix.POLLIN}}
	for _, e := range r.ends {
		polls = append(polls, unix.PollFd{Fd: int32(e.in), Events: unix.POLLIN})
	}
	for {
		if _, err := unix.Ppoll(polls, r.patience(time.Now()), nil); err != nil && err != unix.EINTR {
			return
		}
		if polls[0].Revents != 0 {
			return
		}
		for i := range r.ends {
			switch ev := polls[i+1].Revents; {
			case ev&unix.POLLIN != 0:
				r.read(&r.ends[i])
			case ev != 0:
				polls[i+1].Fd = -1 // the device is gone; polling it would spin
			}
		}
		r.write(time.Now())
	}
}

// patience is how long ppoll may wait: until the next frame is due.
func (r *relay) patience(now time.Time) *unix.Timespec {
	if len(r.queue) == 0 {
		return nil
	}
	ts := unix.NsecToTimespec(max(0, r.queue[0].due.Sub(now).Nanoseconds()))
	return &ts
}

// read takes what has arrived at one end into the queue.
func (r *relay) read(e *plugged) {
	c := r.cable(e.link)
	for range readsAtATime {
		buf := r.buffer()
		n, err := unix.Read(e.in, buf)
		if err != nil || c.Loss > 0 && r.rand.Float64() < c.Loss {
			r.free = append(r.free, buf)
			if err != nil {
				return
			}
			continue
		}
		due := time.Now().Add(c.Delay)
		if c.Jitter > 0 {
			due = due.Add(time.Duration(r.rand.Int64N(int64(c.Jitter))))
		}
		if due.Before(e.last) {
			due = e.last
		}
		e.last = due
		r.orders++
		heap.Push(&r.queue, frame{due, r.orders, e.out, buf[:n]})
	}
}

// write sends what is due. A frame that the device refuses is lost, as on a wire.
func (r *relay) write(now time.Time) {
	for len(r.queue) > 0 && !r.queue[0].due.After(now) {
		f := heap.Pop(&r.queue).(frame)
		unix.Write(f.out, f.data)
		r.free = append(r.free, f.data[:frameSize])
	}
}

func (r *relay) buffer() []byte {
	if n := len(r.free); n > 0 {
		buf := r.free[n-1]
		r.free = r.free[:n-1]
		return buf
	}
	return make([]byte, frameSize)
}
