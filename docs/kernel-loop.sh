#!/bin/sh
# The whole loop on a real kernel, as root: measure three regions behind different
# delays, solve, serve DNS, ask; swap the delays, measure again, ask again.
#   make build && sudo docs/kernel-loop.sh
# Needs dig (Debian: bind9-dnsutils). All traffic stays in namespaces and on loopback.
set -eu
cd "$(dirname "$0")/.."
sl=$PWD/bin/strandline
dir=$(mktemp -d)
server=
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	"$sl" lab down --name loop 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT

# measure NAME: ping the regions from the vantage "src", turn the rows into a
# world, and solve it.
measure() {
	"$sl" lab exec --name loop src -- "$sl" probe ping --vantage office -o "$dir/$1" \
		a=10.88.1.1 b=10.88.2.1 c=10.88.3.1
	"$sl" route world "$dir/$1" --regions "$dir/regions.yaml" -o "$dir/world.yaml"
	"$sl" route solve "$dir/world.yaml"
}

ask() {
	dig +short @127.0.0.1 -p 5399 api.example.org +subnet=198.51.100.0/24
}

cat > "$dir/regions.yaml" <<'YAML'
regions:
  - {name: a, service: {kind: hyperbolic, mu: 1000, kappa: 2}}
  - {name: b, service: {kind: hyperbolic, mu: 1000, kappa: 2}}
  - {name: c, service: {kind: hyperbolic, mu: 1000, kappa: 2}}
frontends:
  - {name: office, rate: 20}
YAML

cat > "$dir/strandline.yaml" <<'YAML'
admin: {listen: 127.0.0.1:9399}
dns:
  listen: [127.0.0.1:5399]
  zones:
    - name: example.org
      records: |
        $TTL 300
        @    SOA ns1 hostmaster 1 7200 900 1209600 60
        @    NS  ns1
        ns1  A   127.0.0.1
  steer: [{name: api.example.org, ttl: 20s, service: chat}]
services:
  - name: chat
    regions:
      - {name: a, addresses: [10.88.1.1]}
      - {name: b, addresses: [10.88.2.1]}
      - {name: c, addresses: [10.88.3.1]}
router:
  world: world.yaml
  clients: [{prefix: 198.51.100.0/24, frontend: office}]
  default_frontend: office
YAML

echo '== three regions behind 5, 20 and 40 ms'
"$sl" lab up --name loop --delay a=5ms,b=20ms,c=40ms
measure before
"$sl" serve dns --config "$dir/strandline.yaml" &
server=$!
until ask > /dev/null 2>&1; do sleep 0.1; done
echo "== a client in 198.51.100.0/24 gets region a: $(ask)"

echo '== the delays are swapped, measured again, and the answer changes'
"$sl" lab up --name loop --delay a=40ms,c=5ms
measure after
kill -HUP "$server"
n=0
while [ "$(ask)" = 10.88.1.1 ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
echo "== now it gets region c: $(ask)"
"$sl" route explain api.example.org 198.51.100.0/24 --admin 127.0.0.1:9399
[ "$(ask)" = 10.88.3.1 ]
