#include "trireme/pipe/links.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {

using sched::index;

Links::Links(int stages, std::vector<SkipConnection> skips)
    : skips_(std::move(skips)), out_(index(stages)), in_(index(stages)) {
  for (int stage = 0; stage + 1 < stages; ++stage) {
    out_[index(stage)].push_back({.to = stage + 1});
    in_[index(stage + 1)].push_back(stage);
  }
  for (const SkipConnection& skip : skips_) {
    if (skip.from < 0 || skip.to >= stages || skip.to < skip.from + 2 ||
        skip.output < 0)
      throw InvalidArgument(text(
          "[pipe] expected a skip connection past at least one of ",
          stages,
          " stages, got output ",
          skip.output,
          " of stage ",
          skip.from,
          " to stage ",
          skip.to,
          "; what goes to the next stage needs no connection"));
    auto& outs = out_[index(skip.from)];
    auto edge = std::find_if(
        outs.begin(), outs.end(), [&](const Out& out) { return out.to == skip.to; });
    if (edge == outs.end()) {
      edge = outs.insert(edge, {.to = skip.to});
      in_[index(skip.to)].push_back(skip.from);
    }
    edge->outputs.push_back(index(skip.output));
  }
  for (int stage = 0; stage < stages; ++stage)
    skip_order_.push_back(find_skip_order(stage));
}

std::vector<size_t> Links::find_skip_order(int stage) const {
  // Where the next tensor of each edge lies; the first edge is no skip connection's.
  std::vector<size_t> next{0, 0};
  const auto& edges = in(stage);
  for (size_t edge = 1; edge + 1 < edges.size(); ++edge)
    next.push_back(
        next.back() + out(edges[edge])[out_edge(edges[edge], stage)].outputs.size());
  std::vector<size_t> order;
  for (const SkipConnection& skip : skips_)
    if (skip.to == stage)
      order.push_back(next[in_edge(stage, skip.from)]++);
  return order;
}

const std::vector<size_t>& Links::skip_order(int stage) const {
  return skip_order_[index(stage)];
}

const std::vector<Links::Out>& Links::out(int stage) const {
  return out_[index(stage)];
}

const std::vector<int>& Links::in(int stage) const {
  return in_[index(stage)];
}

size_t Links::in_edge(int stage, int from) const {
  const auto& edges = in(stage);
  const auto found = std::find(edges.begin(), edges.end(), from);
  TRIREME_ASSERT(found != edges.end());
  return static_cast<size_t>(found - edges.begin());
}

size_t Links::out_edge(int stage, int to) const {
  const auto& edges = out(stage);
  const auto found = std::find_if(
      edges.begin(), edges.end(), [to](const Out& edge) { return edge.to == to; });
  TRIREME_ASSERT(found != edges.end());
  return static_cast<size_t>(found - edges.begin());
}

bool Links::is_skip(int stage, size_t output) const {
  const auto& edges = out(stage);
  for (size_t edge = 1; edge < edges.size(); ++edge)
    if (std::find(edges[edge].outputs.begin(), edges[edge].outputs.end(), output) !=
        edges[edge].outputs.end())
      return true;
  return false;
}

void Links::throw_missing(int stage, size_t edge, size_t count) const {
  const Out& to = out(stage)[edge];
  throw InvalidArgument(text(
      "[pipe] expected stage ",
      stage,
      " to have an output ",
      *std::max_element(to.outputs.begin(), to.outputs.end()),
      " for its skip connection to stage ",
      to.to,
      ", got ",
      count,
      " outputs; return it from the stage's forward"));
}

std::vector<sched::StageEdge> Links::extra_edges() const {
  std::vector<sched::StageEdge> edges;
  for (const SkipConnection& skip : skips_) {
    const sched::StageEdge edge{.from = skip.from, .to = skip.to};
    if (std::find(edges.begin(), edges.end(), edge) == edges.end())
      edges.push_back(edge);
  }
  return edges;
}

}  // namespace trireme::pipe
