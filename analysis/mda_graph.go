package analysis

import (
	"net/netip"
	"slices"

	"strandline/datasets"
)

// place is where a flow was seen.
type place struct {
	kind placeKind
	addr netip.Addr // of a star the last address before it; of a cloud the balancer's
	ttl  uint8      // of stars and refusals; of clouds how far behind the balancer; the others are one place, at whatever TTL they answer
}

type placeKind uint8

const (
	placeSource  placeKind = iota
	placeRouter            // an address
	placeStar              // nobody answered
	placeCloud             // one of several, each packet another
	placeTarget            // the path's end
	placeRefused           // somebody said unreachable: the end too, but how near is not known
)

// ends reports whether a path ends there.
func (p place) ends() bool { return p.kind == placeTarget || p.kind == placeRefused }

// located reports whether the place is an address that stands where it answered.
func (p place) located() bool { return p.kind == placeRouter || p.kind == placeTarget }

// visit is a flow at a TTL.
type visit struct {
	flow int
	ttl  int
}

// choice is a next hop and how many flows chose it.
type choice struct {
	place
	flows int
	sure  bool  // a flow was answered at both ends
	guess visit // a flow that is only thought to come from there
}

// vertex is a place and what the flows through it tell.
type vertex struct {
	place
	first   int // smallest TTL
	visits  []visit
	choices []choice // in the order found
	waiting int      // flows whose next hop is asked for
	open    []visit  // whose next hop could be asked for
	before  []int    // vertices
}

// width is the number of next hops. One flow that was answered by nobody is
// taken for loss, several for a silent router.
func (v *vertex) width() int {
	n := 0
	for _, c := range v.choices {
		if c.kind != placeStar || c.flows > 1 {
			n++
		}
	}
	return n
}

// drawn is the number of flows whose next hop is known.
func (v *vertex) drawn() int {
	n := 0
	for _, f := range v.flowsPerChoice() {
		n += f
	}
	return n
}

func (v *vertex) flowsPerChoice() []int {
	var flows []int
	for _, c := range v.choices {
		if c.kind != placeStar || c.flows > 1 || len(v.choices) == 1 {
			flows = append(flows, c.flows)
		}
	}
	return flows
}

// choose counts a flow from v to a place.
func (v *vertex) choose(to place, sure bool, from visit) {
	if to.kind == placeStar {
		to = place{kind: placeStar} // one, whether v was passed at this TTL or that
	}
	i := slices.IndexFunc(v.choices, func(c choice) bool { return c.place == to })
	if i < 0 {
		i = len(v.choices)
		v.choices = append(v.choices, choice{place: to, guess: from})
	}
	v.choices[i].flows++
	v.choices[i].sure = v.choices[i].sure || sure
}

// mainTTL is the TTL at which most flows pass v.
func (v *vertex) mainTTL() int {
	var count [largestTTL + 1]int
	best := v.first
	for _, at := range v.visits {
		if count[at.ttl]++; count[at.ttl] > count[best] {
			best = at.ttl
		}
	}
	return best
}

// linkKey is a link at a TTL.
type linkKey struct {
	from, to netip.Addr
	ttl      uint8
}

// walker follows one flow from TTL to TTL.
type walker struct {
	at    int     // vertex; -1 = not known
	guess bool    // at is not what answered, but what must be there
	fresh bool    // at was not passed before by this flow
	shown place   // what answered there, which for a cloud is one of many
	smear smear   // what spreads the flow's packets, until their ways meet
	steps []visit // vertices (as flow) by TTL, in order
	ended bool
	loops int
	last  netip.Addr
}

// smear is a per-packet balancer that a flow passed.
type smear struct {
	by  place
	ttl int // where; 0 = none
}

func (s smear) none() bool { return s.ttl == 0 }

// behind identifies what is equally far behind a per-packet balancer.
type behind struct {
	by   place
	hops int
}

// cloud is where the packets are that a per-packet balancer has spread, so many
// hops behind it.
type cloud struct {
	places  []place
	flows   int  // of which it is known where one packet was
	counted int  // the same, in the walk under way
	grew    bool // in the walk under way
}

// survey is what the answers so far say about the graph.
type survey struct {
	p        *Paths
	index    map[place]int
	vertices []vertex
	walkers  []walker
	lost     []visit
	verify   []visit // to be asked to tell what was seen one TTL before
	pending  int
	asked    []int // pending probes by TTL
	stray    []int // those of which it is not known what is before
	known    []int // flows known by TTL
	links    map[linkKey]int
	looped   map[netip.Addr]bool
	clouds   map[behind]*cloud
	hidden   map[netip.Addr]int // who answered for a router that forwards TTL 0, and at which TTL
	cautious bool               // take a balancer of unknown class for one per packet
}

// survey derives the graph from the answers.
func (p *Paths) survey() *survey {
	s := p.surveyed(false)
	p.branching = 0
	p.unique, p.dark = s.uniques()
	clear(p.sole)
	for i := range s.vertices {
		v := &s.vertices[i]
		if v.width() > 1 {
			p.branching++
		}
	}
	for i := range s.vertices {
		v := &s.vertices[i]
		if v.kind == placeRouter && len(v.choices) == 1 && v.choices[0].located() && v.drawn() >= p.need(1) {
			p.sole[v.place] = v.choices[0].place
		}
	}
	return s
}

// uniques returns, by TTL, the one router that all flows pass there, and whether
// nobody answers there, if at least as many flows were seen as make that certain.
func (s *survey) uniques() (seen []place, dark []bool) {
	seen, dark = make([]place, len(s.known)), make([]bool, len(s.known))
	count, stars := make([]int, len(s.known)), make([]int, len(s.known))
	for i := range s.walkers {
		for _, step := range s.walkers[i].steps {
			at := s.vertices[step.flow].place
			if count[step.ttl] == 0 {
				seen[step.ttl] = at
			}
			if seen[step.ttl] != at {
				seen[step.ttl] = place{kind: placeStar}
			}
			count[step.ttl]++
			if at.kind == placeStar {
				stars[step.ttl]++
			}
		}
	}
	for ttl := range seen {
		certain := s.known[ttl] >= s.p.need(1)
		if !certain || seen[ttl].kind != placeRouter {
			seen[ttl] = place{}
		}
		dark[ttl] = certain && stars[ttl] == count[ttl]
	}
	return seen, dark
}

// implied returns where a flow must be at a TTL that it was not asked at: what
// is certain about its last hop, or about the TTL, is certain about it. This
// costs nothing of the failure probability, since it fails only together with
// what it rests on.
func (s *survey) implied(w *walker, ttl int) (place, bool) {
	if w.at >= 0 {
		if at, ok := s.p.sole[s.vertices[w.at].place]; ok {
			return at, true
		}
	}
	if s.p.unique[ttl].kind == placeRouter {
		return s.p.unique[ttl], true
	}
	if s.p.dark[ttl] {
		return place{kind: placeStar, ttl: uint8(ttl)}, true
	}
	return place{}, false
}

// surveyed repeats the survey until it knows all that per-packet balancers spread:
// of one that flows pass at several TTLs, what is behind it shows only in the end.
func (p *Paths) surveyed(cautious bool) *survey {
	clouds := map[behind]*cloud{}
	const enough = 8 // balancers in a row hardly need more
	for round := 1; ; round++ {
		s := p.walk(cautious, clouds)
		same := true
		for at, c := range clouds {
			same = same && c.flows == c.counted && !c.grew
			c.flows, c.counted, c.grew = c.counted, 0, false
			if c.flows == 0 {
				delete(clouds, at)
			}
		}
		if same || round == enough {
			return s
		}
	}
}

// walk follows every flow.
func (p *Paths) walk(cautious bool, clouds map[behind]*cloud) *survey {
	s := &survey{
		p: p, index: map[place]int{}, asked: make([]int, p.opt.MaxTTL+2), stray: make([]int, p.opt.MaxTTL+2), known: make([]int, p.opt.MaxTTL+2),
		links: map[linkKey]int{}, looped: map[netip.Addr]bool{}, hidden: map[netip.Addr]int{}, clouds: clouds, cautious: cautious,
	}
	source := s.vertex(place{kind: placeSource}, p.opt.FirstTTL-1)
	for i := range p.flows {
		s.walkers = append(s.walkers, walker{at: source, fresh: true})
		s.vertices[source].visits = append(s.vertices[source].visits, visit{i, p.opt.FirstTTL - 1})
	}
	for ttl := p.opt.FirstTTL; ttl <= min(p.highest+1, p.opt.MaxTTL); ttl++ {
		s.gather(ttl)
		for i := range s.walkers {
			s.step(i, ttl)
		}
	}
	return s
}

// vertex returns the index of a place, which may be new.
func (s *survey) vertex(at place, ttl int) int {
	i, ok := s.index[at]
	if !ok {
		i = len(s.vertices)
		s.index[at] = i
		s.vertices = append(s.vertices, vertex{place: at, first: ttl})
	}
	return i
}

// gather adds to the clouds who answers at a TTL the packets that per-packet
// balancers have spread.
func (s *survey) gather(ttl int) {
	for i := range s.walkers {
		w := &s.walkers[i]
		if w.smear.none() || w.ended {
			continue
		}
		key := behind{w.smear.by, ttl - w.smear.ttl}
		at, k := s.see(i, ttl)
		if k < silent {
			continue
		}
		c := s.clouds[key]
		if c == nil {
			c = &cloud{}
			s.clouds[key] = c
		}
		c.counted++
		if !slices.Contains(c.places, at) {
			c.places, c.grew = append(c.places, at), true
		}
	}
}

// apart reports whether the packets of a cloud go different ways, as far as is
// certain: that they have met again takes as many flows as that a router has one
// next hop.
func (s *survey) apart(c *cloud) bool {
	return c != nil && (len(c.places) > 1 || c.flows < s.p.need(1))
}

// see returns where a flow is at a TTL, if that is known.
func (s *survey) see(i, ttl int) (place, knowledge) {
	f := s.p.flows[i]
	k := s.p.know(f, ttl)
	if k == silent {
		return s.star(i, ttl), k
	}
	if k != answered {
		return place{}, k
	}
	a := &f.cells[ttl].answers[0]
	if a.expired {
		switch s.again(f, ttl+1, a) {
		case awaited:
			s.verify = append(s.verify, visit{i, ttl + 1})
			return place{}, awaited
		case silent:
			s.hidden[a.sample.From] = ttl
			return s.star(i, ttl), silent
		}
	}
	switch from := a.sample.From; {
	case a.reached:
		return place{kind: placeTarget, addr: from}, k
	case a.refused:
		return place{kind: placeRefused, addr: from, ttl: uint8(ttl)}, k
	default:
		return place{kind: placeRouter, addr: from}, k
	}
}

// star is what a flow passes at a TTL where it is not answered: after each address
// another one, or one for all where nobody is answered.
func (s *survey) star(i, ttl int) place {
	at := place{kind: placeStar, ttl: uint8(ttl)}
	if !s.p.dark[ttl] {
		at.addr = s.walkers[i].last
	}
	return at
}

// again says what the next TTL tells about an answer to a probe whose TTL had run
// out before. If the same address answers there, the router before it forwarded a
// packet of TTL 0 (Augustin et al., IMC 2006) and is what stands here, silent. If
// another does, its sender only counts down before it quotes. If nobody does, or
// that one's TTL had run out too, it is taken for the former.
func (s *survey) again(f *flowCells, ttl int, a *answer) knowledge {
	if ttl > s.p.opt.MaxTTL {
		return silent
	}
	switch k := s.p.know(f, ttl); {
	case k < silent:
		return awaited
	case k == answered && f.cells[ttl].answers[0].sample.From != a.sample.From && !f.cells[ttl].answers[0].expired:
		return answered
	}
	return silent
}

// step moves a flow's walker to a TTL.
func (s *survey) step(i, ttl int) {
	w := &s.walkers[i]
	if w.ended {
		return
	}
	shown, k := s.see(i, ttl)
	guess := false
	if k == unasked && w.smear.none() {
		shown, guess = s.implied(w, ttl)
	}
	if k < silent && !guess {
		s.unknown(i, ttl, k)
		w.at = -1
		return
	}
	if guess {
		s.unknown(i, ttl, k) // it may still be asked
	} else {
		s.known[ttl]++
	}
	at := s.settle(w, shown, ttl)
	v := s.vertex(at, ttl)
	if w.at >= 0 && w.at != v {
		s.cross(i, v, shown, ttl, guess)
	}
	w.fresh = !slices.ContainsFunc(w.steps, func(old visit) bool { return old.flow == v })
	if !w.fresh && w.at != v && at.kind == placeRouter {
		s.looped[at.addr] = true
		w.loops++
	}
	if w.fresh {
		s.vertices[v].visits = append(s.vertices[v].visits, visit{i, ttl})
	}
	w.steps = append(w.steps, visit{v, ttl})
	w.at, w.shown, w.guess = v, shown, guess
	if shown.located() {
		w.last = shown.addr
	}
	if w.smear.none() && s.spreads(v) {
		w.smear = smear{at, ttl}
	}
	const enough = 3 // times around a loop
	w.ended = shown.ends() || w.loops >= enough
}

// unknown books what could be, or is being, asked.
func (s *survey) unknown(i, ttl int, k knowledge) {
	w := &s.walkers[i]
	if k == lost {
		s.lost = append(s.lost, visit{i, ttl})
	}
	if k != unasked {
		s.pending++
		s.asked[ttl]++
	}
	if w.at < 0 && k != unasked {
		s.stray[ttl]++
	}
	if w.at < 0 || !w.fresh {
		return
	}
	if v := &s.vertices[w.at]; k == unasked {
		v.open = append(v.open, visit{i, ttl})
	} else {
		v.waiting++
	}
}

// settle says at which place a flow is that was answered by shown, and keeps
// track of whether its packets are spread.
func (s *survey) settle(w *walker, shown place, ttl int) place {
	if w.smear.none() && w.at < 0 {
		w.smear = s.guess(shown, ttl)
	}
	if w.smear.none() {
		return shown
	}
	hops := ttl - w.smear.ttl
	if s.apart(s.clouds[behind{w.smear.by, hops}]) {
		return place{kind: placeCloud, addr: w.smear.by.addr, ttl: uint8(hops)}
	}
	w.smear = smear{}
	return shown
}

// guess returns what spreads the packets of a flow that was not followed to where
// it is now, going by other flows that were seen there.
func (s *survey) guess(shown place, ttl int) smear {
	var best smear
	for key, c := range s.clouds {
		if !s.apart(c) || !slices.Contains(c.places, shown) || ttl <= key.hops {
			continue
		}
		if at := (smear{key.by, ttl - key.hops}); best.none() || at.ttl > best.ttl || at.ttl == best.ttl && at.by.addr.Less(best.by.addr) {
			best = at
		}
	}
	return best
}

// cross books a flow's step to a vertex.
func (s *survey) cross(i, v int, shown place, ttl int, guess bool) {
	w := &s.walkers[i]
	from := &s.vertices[w.at]
	if guess {
		return
	}
	if w.fresh {
		from.choose(shown, !w.guess, visit{i, ttl - 1})
	}
	if to := &s.vertices[v]; !slices.Contains(to.before, w.at) {
		to.before = append(to.before, w.at)
	}
	inside := from.kind == placeCloud && s.vertices[v].kind == placeCloud
	if w.shown.located() && shown.located() && w.shown != shown && !inside && !w.guess {
		s.links[linkKey{w.shown.addr, shown.addr, uint8(ttl - 1)}]++
	}
}

// spreads reports whether a vertex sends the packets of one flow different ways.
func (s *survey) spreads(v int) bool {
	d := s.p.decided[s.vertices[v].place]
	if s.cautious && d == nil && s.vertices[v].kind != placeCloud {
		return s.p.suspect(s.vertices[v].place)
	}
	return d != nil && d.class == datasets.PerPacket
}

// demand asks for what the routers lack.
func (a *asker) demand(s *survey) {
	for _, at := range s.lost {
		a.ask(a.flows[at.flow], at.ttl, forDiscovery)
	}
	for _, at := range s.verify {
		if k := a.know(a.flows[at.flow], at.ttl); k == unasked || k == lost {
			a.ask(a.flows[at.flow], at.ttl, forDiscovery)
		}
	}
	short := make([]int, a.opt.MaxTTL+2)
	needy := make([][]int, a.opt.MaxTTL+2)
	a.starved, a.silent = false, false
	for i := range s.vertices {
		v := &s.vertices[i]
		if v.ends() || v.first > a.highest || v.first >= a.opt.MaxTTL {
			continue
		}
		if i > 0 && len(v.before) == 0 {
			a.trackBack(s, v)
		}
		a.confirm(v)
		lack := a.need(v.width()) - v.drawn() - v.waiting - s.stray[v.mainTTL()+1]
		for lack > 0 && len(v.open) > 0 {
			at := v.open[0]
			v.open = v.open[1:]
			if a.ask(a.flows[at.flow], at.ttl, forDiscovery) {
				s.asked[at.ttl]++
			}
			lack--
		}
		if lack <= 0 {
			continue
		}
		if v.kind == placeStar && !a.dark[v.ttl] {
			a.silent = true // flows through it show only by asking in vain
			continue
		}
		if s.spread(v.place) {
			a.starved = true
			continue
		}
		ttl := s.entrance(v)
		if short[ttl] += lack; needy[ttl] == nil || !slices.Contains(needy[ttl], i) {
			needy[ttl] = append(needy[ttl], i)
		}
	}
	for ttl, want := range short {
		if s.asked[ttl] == 0 { // else what is under way may do
			a.place(s, ttl, want, needy[ttl])
		}
	}
}

// confirm asks a flow at v that is only thought to pass it, where nothing else
// shows that a next hop is one of v.
func (a *asker) confirm(v *vertex) {
	for _, c := range v.choices {
		if f := a.flows[c.guess.flow]; !c.sure && c.guess.ttl >= a.opt.FirstTTL && a.know(f, c.guess.ttl) == unasked {
			a.ask(f, c.guess.ttl, forDiscovery)
		}
	}
}

// trackBack asks where a flow was before it passed a vertex that no other flow
// was followed to.
func (a *asker) trackBack(s *survey, v *vertex) {
	for _, at := range v.visits {
		if at.ttl <= a.opt.FirstTTL {
			return
		}
		switch a.know(a.flows[at.flow], at.ttl-1) {
		case unasked:
			a.ask(a.flows[at.flow], at.ttl-1, forDiscovery)
			return
		case awaited:
			return
		}
	}
}

// entrance is the TTL at which more flows through a vertex are sought.
func (s *survey) entrance(v *vertex) int {
	if v.kind == placeSource {
		return s.p.opt.FirstTTL
	}
	ttl := v.mainTTL()
	if s.p.unique[ttl] == v.place || s.p.dark[ttl] {
		return ttl + 1 // every flow passes it
	}
	return ttl
}

// place sends flows to a TTL in the hope that they pass the needy vertices:
// first those that are known to pass a vertex before one, then others.
func (a *asker) place(s *survey, ttl, want int, needy []int) {
	for _, i := range needy {
		if s.p.unique[ttl-1] == s.vertices[i].place || s.p.dark[ttl-1] {
			continue // every flow passes it
		}
		for _, u := range s.vertices[i].before {
			for v := &s.vertices[u]; want > 0 && len(v.open) > 0; want-- {
				at := v.open[0]
				v.open = v.open[1:]
				a.ask(a.flows[at.flow], at.ttl, forDiscovery)
			}
		}
	}
	if want <= 0 {
		return
	}
	if s.hopeless(ttl, needy) {
		a.starved = true
		return
	}
	want = max(want, s.known[ttl]/16) // more than few, or rare ones would be sought one by one
	for i := 0; want > 0; i++ {
		f := a.flow(i)
		if i < len(s.walkers) && (a.know(f, ttl) != unasked || ttl > a.opt.FirstTTL && a.know(f, ttl-1) == answered || s.over(i, ttl)) {
			continue
		}
		if !a.ask(f, ttl, forDiscovery) {
			return
		}
		want--
	}
}

// over reports whether the flow's path ended before a TTL.
func (s *survey) over(i, ttl int) bool {
	w := &s.walkers[i]
	return w.ended && w.steps[len(w.steps)-1].ttl < ttl
}

// spread reports whether a place is among those that a per-packet balancer sends
// packets to: then a flow that is seen there may not pass it next time.
func (s *survey) spread(at place) bool {
	for _, c := range s.clouds {
		if s.apart(c) && slices.Contains(c.places, at) {
			return true
		}
	}
	return false
}

// hopeless reports whether the needy vertices are passed so rarely that what they
// lack, at the rate up to now, would take more probes than may still be sent.
func (s *survey) hopeless(ttl int, needy []int) bool {
	left := s.p.opt.MaxProbes - len(s.p.probes)
	for _, i := range needy {
		v := &s.vertices[i]
		lack := s.p.need(v.width()) - v.drawn()
		if v.kind == placeSource || v.kind == placeStar || lack*(s.known[ttl]+1)/max(1, len(v.visits)) <= left {
			return false
		}
	}
	return true
}
