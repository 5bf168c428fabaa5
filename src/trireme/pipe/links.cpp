#include "trireme/pipe/links.h"

#include <algorithm>
#include <map>

#include "trireme/core/error.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {

using sched::index;

namespace {

/// A stage that saves something by name, and the how many-th of its saved tensors it
/// is.
struct Source {
  int stage = 0;
  size_t number = 0;
};

std::map<std::string, Source> find_sources(const std::vector<StageSkips>& named) {
  std::map<std::string, Source> sources;
  for (size_t stage = 0; stage < named.size(); ++stage)
    for (size_t i = 0; i < named[stage].saved.size(); ++i) {
      const auto [at, is_new] =
          sources.emplace(named[stage].saved[i], Source{static_cast<int>(stage), i});
      if (!is_new)
        throw InvalidArgument(text(
            "[pipe] expected each skip to be saved once, got \"",
            named[stage].saved[i],
            "\" from stage ",
            at->second.stage,
            " and from stage ",
            stage,
            "; rename one"));
    }
  return sources;
}

Source find_source(
    const std::map<std::string, Source>& sources, const std::string& name, int to) {
  const auto found = sources.find(name);
  if (found == sources.end() || found->second.stage >= to)
    throw InvalidArgument(text(
        "[pipe] expected a stage before stage ",
        to,
        " to save \"",
        name,
        "\", which stage ",
        to,
        " takes, got ",
        found == sources.end() ? text("none")
                               : text("it from stage ", found->second.stage),
        "; see saving() in layers.h"));
  return found->second;
}

}  // namespace

Links::Links(
    int stages,
    const std::vector<SkipConnection>& skips,
    const std::vector<StageSkips>& named)
    : out_(index(stages)),
      in_(index(stages)),
      saved_(index(stages)),
      taken_(index(stages)),
      skipped_(index(stages)),
      named_(index(stages)) {
  for (int stage = 0; stage + 1 < stages; ++stage)
    edge_to(stage, stage + 1);
  for (const SkipConnection& skip : skips)
    add_skip(skip);
  add_named(named);
  for (int stage = 0; stage < stages; ++stage)
    skip_order_.push_back(find_skip_order(stage));
}

/// The edge between two stages, made if there is none yet.
Links::Out& Links::edge_to(int from, int to) {
  auto& outs = out_[index(from)];
  const auto edge = std::find_if(
      outs.begin(), outs.end(), [to](const Out& out) { return out.to == to; });
  if (edge != outs.end())
    return *edge;
  in_[index(to)].push_back(from);
  return outs.emplace_back(Out{.to = to});
}

void Links::add_skip(const SkipConnection& skip) {
  const int stages = static_cast<int>(out_.size());
  if (skip.from < 0 || skip.to >= stages || skip.to < skip.from + 2 || skip.output < 0)
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
  Out& edge = edge_to(skip.from, skip.to);
  skipped_[index(skip.to)].push_back({skip.from, edge.outputs.size()});
  edge.outputs.push_back(index(skip.output));
}

void Links::add_named(const std::vector<StageSkips>& named) {
  const auto sources = find_sources(named);
  for (size_t stage = 0; stage < named.size(); ++stage) {
    saved_[stage] = named[stage].saved.size();
    taken_[stage] = named[stage].taken.size();
    for (const std::string& name : named[stage].taken) {
      const Source source = find_source(sources, name, static_cast<int>(stage));
      Out& edge = edge_to(source.stage, static_cast<int>(stage));
      named_[stage].push_back({source.stage, edge.saved.size()});
      edge.saved.push_back(source.number);
    }
  }
}

// Of the edge from the stage before, only what is saved by name is at the end.
std::vector<size_t> Links::find_skip_order(int stage) const {
  std::map<int, size_t> first;  // by stage: where the tensors of its edge begin
  std::map<int, size_t> outputs;
  size_t next = 0;
  for (const int from : in(stage)) {
    const Out& edge = out(from)[out_edge(from, stage)];
    first[from] = next;
    outputs[from] = edge.outputs.size();
    next += edge.outputs.size() + edge.saved.size();
  }
  std::vector<size_t> order;
  for (const Arrival& one : skipped_[index(stage)])
    order.push_back(first[one.from] + one.number);
  for (const Arrival& one : named_[index(stage)])
    order.push_back(first[one.from] + outputs[one.from] + one.number);
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

size_t Links::saved(int stage) const {
  return saved_[index(stage)];
}

size_t Links::taken(int stage) const {
  return taken_[index(stage)];
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

size_t Links::plain_outputs(int stage, size_t count) const {
  if (count < saved(stage))
    throw InvalidArgument(text(
        "[pipe] expected stage ",
        stage,
        " to return the ",
        saved(stage),
        " tensors that it saves by name, got ",
        count,
        " outputs; return them last, in the order of saved_skips()"));
  return count - saved(stage);
}

bool Links::is_skip(int stage, size_t output) const {
  const auto& edges = out(stage);
  return std::any_of(edges.begin(), edges.end(), [output](const Out& edge) {
    return std::find(edge.outputs.begin(), edge.outputs.end(), output) !=
           edge.outputs.end();
  });
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
  for (size_t stage = 0; stage < out_.size(); ++stage)
    for (const Out& edge : out_[stage])
      if (edge.to != static_cast<int>(stage) + 1)
        edges.push_back({.from = static_cast<int>(stage), .to = edge.to});
  return edges;
}

}  // namespace trireme::pipe
