// Shows what the daemon's /status says, every two seconds. Values are written as
// text, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);

function el(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

const fixed = (v, digits) => (typeof v === "number" ? v.toFixed(digits) : "–");

function row(...cells) {
  const tr = el("tr");
  tr.append(...cells);
  return tr;
}

// shade is the fill and text colour of a share, on a one-hue scale.
function shade(share) {
  const from = [239, 246, 252], to = [8, 64, 129];
  const mix = from.map((f, i) => Math.round(f + (to[i] - f) * share));
  return { fill: `rgb(${mix})`, text: share > 0.5 ? "#fff" : "#10222f" };
}

function regions(s) {
  $("regions").tBodies[0].replaceChildren(...s.regions.map((r) => {
    const track = el("span", undefined, "track"), bar = el("span", undefined, "bar");
    bar.style.width = `${Math.min(100, 100 * r.utilisation)}%`;
    track.append(bar);
    const used = el("td");
    used.append(track, `${fixed(100 * r.utilisation, 0)} %`);
    const check = (r.checks || []).map((c) => c.error || `ok in ${fixed(c.took_ms, 1)} ms`).join("; ") || "not checked";
    return row(el("td", r.name), el("td", r.down ? "✗ down" : "✓ up", r.down ? "bad" : "good"),
      el("td", fixed(r.rate, 1), "n"), used, el("td", r.down ? "–" : fixed(r.price, 3), "n"), el("td", check));
  }));
}

function shares(s) {
  const names = s.regions.map((r) => r.name);
  $("shares").tHead.replaceChildren(row(el("th"), ...names.map((n) => el("th", n))));
  $("shares").tBodies[0].replaceChildren(...s.frontends.map((f) => row(el("th", f.name), ...names.map((n) => {
    const share = f.shares[n] || 0;
    const td = el("td", share >= 0.0005 ? (100 * share).toPrecision(3) : "");
    if (share >= 0.0005) {
      const c = shade(share);
      td.style.background = c.fill;
      td.style.color = c.text;
    }
    td.title = `${f.name} to ${n}: ${(100 * share).toFixed(2)} % of ${fixed(f.rate, 2)} requests/s`;
    return td;
  }))));
}

// flat lists the numbers of nested counters with their paths.
function flat(prefix, v) {
  if (v === null || typeof v !== "object") return [[prefix, v]];
  return Object.entries(v).flatMap(([k, x]) => flat(prefix ? `${prefix} ${k}` : k, x));
}

function counters(s) {
  const all = flat("", { dns: s.dns || {}, http: s.http || {}, reloads: s.reload.count, "reloads failed": s.reload.failed });
  $("counters").tBodies[0].replaceChildren(...all.filter(([, v]) => v).map(([k, v]) => row(el("td", k.replaceAll("_", " ")), el("td", String(v), "n"))));
}

function lead(s) {
  const parts = [`epoch ${s.epoch}`, s.ready ? "ready" : `not ready: ${s.reason}`,
    `mean latency ${fixed(s.mean_latency_s, 4)} s`, s.overloaded ? "overloaded" : `optimal within ${s.gap === null ? "–" : Math.max(0, s.gap).toExponential(0)}`];
  if (!s.reload.ok) parts.push(`last reload failed: ${(s.reload.error || []).join("; ")}`);
  if (s.plan_error) parts.push(`plan: ${s.plan_error}`);
  $("lead").textContent = parts.join(" · ");
  $("lead").className = s.ready && s.reload.ok && !s.plan_error ? "soft" : "bad";
  $("version").textContent = s.version || "";
}

async function refresh() {
  try {
    const reply = await fetch("status", { cache: "no-store" });
    const s = await reply.json();
    lead(s);
    regions(s);
    shares(s);
    counters(s);
  } catch (e) {
    $("lead").textContent = `the daemon does not answer: ${e.message}`;
    $("lead").className = "bad";
  }
}

async function links() {
  const reply = await fetch("report.html", { method: "HEAD" }).catch(() => null);
  if (reply && reply.ok) {
    const a = el("a", "report");
    a.href = "report.html";
    $("links").replaceChildren("· ", a);
  }
}

refresh();
links();
setInterval(refresh, 2000);
