package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Lab is a network that is up. Its methods may be called from any goroutine.
type Lab struct {
	topo  Topology
	relay *relay
}

// Up builds the network. On an error, what was built is taken down again; the
// error wraps os.ErrPermission without root, and os.ErrExist when a namespace of
// that name is there already.
func Up(t Topology) (*Lab, error) {
	if err := t.validate(); err != nil {
		return nil, fmt.Errorf("lab %s: %w", t.Name, err)
	}
	l := &Lab{topo: t, relay: newRelay()}
	made, err := l.build()
	if err == nil {
		err = l.relay.start()
	}
	if err != nil {
		l.relay.close()
		return nil, fmt.Errorf("lab %s: %w", t.Name, errors.Join(err, removeAll(made)))
	}
	return l, nil
}

// Topology returns what the lab was built from.
func (l *Lab) Topology() *Topology { return &l.topo }

// Down takes the network down. Processes that are still in a namespace keep it
// alive, unreachable, until they end.
func (l *Lab) Down() error {
	l.relay.close()
	return removeAll(l.topo.namespaces())
}

// Do runs f on an OS thread inside the node's namespace; see the function Do.
func (l *Lab) Do(node string, f func() error) error {
	return Do(l.topo.Namespace(node), f)
}

// Exec runs a command inside the node's namespace and returns its standard
// output. Its standard error is part of the error.
func (l *Lab) Exec(ctx context.Context, node string, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := Start(l.topo.Namespace(node), cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s: %s: %w: %s", node, strings.Join(argv, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), err
}

// SetCable changes the cable between two nodes. Frames already under way keep
// the delay they left with.
func (l *Lab) SetCable(a, b string, c Cable) error {
	if err := c.validate(); err != nil {
		return fmt.Errorf("link %s-%s: %w", a, b, err)
	}
	for i, link := range l.topo.Links {
		if link.Cable != nil && (link.A == a && link.B == b || link.A == b && link.B == a) {
			l.relay.set(i, c)
			return nil
		}
	}
	return fmt.Errorf("link %s-%s: no such cable", a, b)
}

func (t *Topology) namespaces() []string {
	var names []string
	for _, n := range t.Hosts {
		names = append(names, t.Namespace(n.Name))
	}
	return names
}

func removeAll(namespaces []string) error {
	var errs []error
	for _, name := range namespaces {
		errs = append(errs, removeNamespace(name))
	}
	return errors.Join(errs...)
}

// build makes namespaces, links, addresses and routes, in the order in which the
// kernel accepts them. It returns the namespaces that it made.
func (l *Lab) build() (made []string, err error) {
	t := &l.topo
	for _, n := range t.Hosts {
		name := t.Namespace(n.Name)
		if err := createNamespace(name); err != nil {
			return made, err
		}
		made = append(made, name)
		if err := Do(name, func() error { return sysctls(n) }); err != nil {
			return made, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	for i := range t.Links {
		if err := l.connect(i); err != nil {
			return made, fmt.Errorf("link %s-%s: %w", t.Links[i].A, t.Links[i].B, err)
		}
	}
	for _, step := range []func(*Topology, Host) error{addresses, routes} {
		for _, n := range t.Hosts {
			if err := Do(t.Namespace(n.Name), func() error { return step(t, n) }); err != nil {
				return made, fmt.Errorf("node %s: %w", n.Name, err)
			}
		}
	}
	return made, nil
}

// sysctls sets a fresh namespace's switches. Those marked optional are missing
// from older kernels.
func sysctls(n Host) error {
	settings := []struct {
		key, value string
		optional   bool
	}{
		// Link-local addresses, too, shall be usable at once.
		{"ipv6/conf/all/accept_dad", "0", false},
		{"ipv6/conf/default/accept_dad", "0", false},
		{"ipv6/conf/default/accept_ra", "0", false},
		// Balanced ways back differ from the ways out.
		{"ipv4/conf/all/rp_filter", "0", false},
		{"ipv4/conf/default/rp_filter", "0", false},
		{"ipv4/icmp_ratelimit", "0", false},
		{"ipv6/icmp/ratelimit", "0", false},
		{"ipv4/icmp_msgs_per_sec", "1000000", true},
		{"ipv4/icmp_msgs_burst", "1000000", true},
	}
	if n.Router {
		settings = append(settings, []struct {
			key, value string
			optional   bool
		}{
			{"ipv4/ip_forward", "1", false},
			{"ipv6/conf/all/forwarding", "1", false},
			{"ipv4/icmp_errors_use_inbound_ifaddr", "1", false}, // as IPv6 does by itself
			{"ipv4/fib_multipath_hash_policy", "1", false},      // five-tuple
			{"ipv6/fib_multipath_hash_policy", "1", false},
			{"ipv4/fib_multipath_hash_seed", strconv.FormatUint(uint64(n.HashSeed), 10), true},
		}...)
	}
	for _, s := range settings {
		// /proc/sys/net shows the namespace of the thread that opens it.
		err := os.WriteFile("/proc/sys/net/"+s.key, []byte(s.value), 0)
		if err != nil && !(s.optional && errors.Is(err, os.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// mac is the address of one side of link i.
func mac(i, side int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x5d, 0, byte(i >> 8), byte(i), byte(side)} // 0x02: locally administered
}

// connect makes the two interfaces of link i.
func (l *Lab) connect(i int) error {
	link := l.topo.Links[i]
	if link.Cable != nil {
		return l.plug(i)
	}
	return Do(l.topo.Namespace(link.A), func() error {
		peer, err := unix.Open(netnsDir+"/"+l.topo.Namespace(link.B), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(peer)
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr = link.B, mac(i, 0)
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: link.A, PeerHardwareAddr: mac(i, 1), PeerNamespace: netlink.NsFd(peer),
		})
	})
}

// plug makes the two TAP devices of cable i and hands them to the relay.
func (l *Lab) plug(i int) error {
	link := l.topo.Links[i]
	var fds []int
	for side, end := range [2][2]string{{link.A, link.B}, {link.B, link.A}} {
		err := l.Do(end[0], func() error {
			fd, err := openTAP(end[1])
			if err != nil {
				return err
			}
			fds = append(fds, fd)
			dev, err := netlink.LinkByName(end[1])
			if err != nil {
				return err
			}
			return netlink.LinkSetHardwareAddr(dev, mac(i, side))
		})
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
			return err
		}
	}
	l.relay.add(i, fds[0], fds[1], *link.Cable)
	return nil
}

// addresses brings up the interfaces of the node that the thread is in.
func addresses(t *Topology, n Host) error {
	if err := bringUp("lo", n.hostPrefixes()); err != nil {
		return err
	}
	for i, link := range t.Links {
		side := slices.Index([]string{link.A, link.B}, n.Name)
		if side < 0 {
			continue
		}
		peer := []string{link.B, link.A}[side]
		if err := bringUp(peer, []netip.Prefix{link.prefix(side, false), link.prefix(side, true)}); err != nil {
			return err
		}
		for _, v6 := range []bool{false, true} {
			if err := neighbour(peer, link.addr(1-side, v6), mac(i, 1-side)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n Host) hostPrefixes() (prefixes []netip.Prefix) {
	for _, a := range n.Addrs {
		prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	return prefixes
}

func bringUp(dev string, prefixes []netip.Prefix) error {
	link, err := netlink.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("interface %s: %w", dev, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("interface %s: %w", dev, err)
	}
	for _, p := range prefixes {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD // else the address cannot be used until a kernel worker has looked at it
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("interface %s: address %s: %w", dev, p, err)
		}
	}
	return nil
}

// neighbour enters the address at the other end of dev for good.
func neighbour(dev string, addr netip.Addr, hw net.HardwareAddr) error {
	link, err := netlink.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("interface %s: %w", dev, err)
	}
	err = netlink.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: hw,
	})
	if err != nil {
		return fmt.Errorf("interface %s: neighbour %s: %w", dev, addr, err)
	}
	return nil
}

// routes enters the routes of the node that the thread is in.
func routes(t *Topology, n Host) error {
	for _, r := range n.Routes {
		v6 := r.Dst.Addr().Is6()
		route := &netlink.Route{
			Dst: &net.IPNet{IP: r.Dst.Addr().AsSlice(), Mask: net.CIDRMask(r.Dst.Bits(), r.Dst.Addr().BitLen())},
		}
		for _, via := range r.Via {
			link, err := netlink.LinkByName(via)
			if err != nil {
				return fmt.Errorf("route to %s: interface %s: %w", r.Dst, via, err)
			}
			route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{
				LinkIndex: link.Attrs().Index, Gw: t.Addr(via, n.Name, v6).AsSlice(),
			})
		}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("route to %s: %w", r.Dst, err)
		}
	}
	return nil
}
