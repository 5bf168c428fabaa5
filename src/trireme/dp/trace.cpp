#include "trireme/dp/trace.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include "trireme/comm/collectives.h"
#include "trireme/core/environment.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

using Json = nlohmann::json;

Json slice(
    const std::string& name, int rank, int track, int64_t start_ns, int64_t end_ns) {
  return {
      {"name", name},
      {"ph", "X"},
      {"pid", rank},
      {"tid", track},
      {"ts", static_cast<double>(start_ns) / 1e3},
      {"dur", static_cast<double>(std::max<int64_t>(0, end_ns - start_ns)) / 1e3}};
}

Json track_name(int rank, int track, const std::string& name) {
  return {
      {"name", "thread_name"},
      {"ph", "M"},
      {"pid", rank},
      {"tid", track},
      {"args", {{"name", name}}}};
}

}  // namespace

std::string to_chrome_trace(const std::vector<RoundStats>& rounds, int rank) {
  enum Track { Backward, Waits, Reductions };
  Json events = Json::array(
      {{{"name", "process_name"},
        {"ph", "M"},
        {"pid", rank},
        {"args", {{"name", text("rank ", rank)}}}},
       track_name(rank, Backward, "backward"),
       track_name(rank, Waits, "buckets that are full"),
       track_name(rank, Reductions, "reductions")});
  for (const RoundStats& round : rounds) {
    events.push_back(slice(
        text("backward ", round.round),
        rank,
        Backward,
        round.start_ns,
        round.backward_end_ns));
    for (size_t b = 0; b < round.buckets.size(); ++b) {
      const BucketTime& bucket = round.buckets[b];
      if (bucket.start_ns > bucket.ready_ns)
        events.push_back(slice(
            text("bucket ", b, " waits"),
            rank,
            Waits,
            bucket.ready_ns,
            bucket.start_ns));
      Json reduction =
          slice(text("bucket ", b), rank, Reductions, bucket.start_ns, bucket.end_ns);
      reduction["args"] = {{"bytes", bucket.bytes}, {"skipped", bucket.skipped}};
      events.push_back(std::move(reduction));
    }
  }
  return Json{{"traceEvents", std::move(events)}}.dump();
}

std::vector<RankTimes> gather_times(const comm::Group& group, const RoundStats& stats) {
  at::Tensor own = at::empty({3}, at::TensorOptions().dtype(at::kLong));
  auto* numbers = own.mutable_data_ptr<int64_t>();
  numbers[0] = stats.backward_end_ns - stats.start_ns;
  numbers[1] = stats.end_ns - stats.backward_end_ns;
  numbers[2] = stats.comm_ns();
  at::Tensor all = at::empty({3 * group.size()}, own.options());
  comm::all_gather(group, all, own);
  std::vector<RankTimes> times;
  for (const int64_t* row = all.const_data_ptr<int64_t>();
       times.size() < static_cast<size_t>(group.size());
       row += 3)
    times.push_back({row[0], row[1], row[2]});
  return times;
}

Straggler find_straggler(const std::vector<RankTimes>& times) {
  if (times.empty())
    throw InvalidArgument(
        "[dp] expected the times of at least one rank, got none; call gather_times()");
  std::vector<int64_t> backwards;
  for (const RankTimes& one : times)
    backwards.push_back(one.backward_ns);
  const auto slowest = std::max_element(backwards.begin(), backwards.end());
  const auto rank = static_cast<int>(slowest - backwards.begin());
  const int64_t longest = *slowest;
  std::sort(backwards.begin(), backwards.end());
  const int64_t median = std::max<int64_t>(1, backwards[(backwards.size() - 1) / 2]);
  return {rank, static_cast<double>(longest) / static_cast<double>(median)};
}

std::map<std::string, std::string> logging_data(const Replica& replica) {
  const Reducer& reducer = replica.reducer();
  const DataParallelOptions& options = replica.options();
  const RoundStats& stats = replica.stats();
  std::map<std::string, std::string> data{
      {"backend", replica.group().backend()},
      {"rank", text(replica.group().rank())},
      {"world_size", text(replica.group().size())},
      {"parameters", text(reducer.parameters().size())},
      {"find_unused", text(options.find_unused)},
      {"static_graph", text(options.static_graph)},
      {"rounds", text(reducer.rounds())},
      {"rebuilds", text(reducer.rebuilds())},
      {"bytes", text(stats.bytes())},
      {"backward_ns", text(stats.backward_end_ns - stats.start_ns)},
      {"wait_ns", text(stats.end_ns - stats.backward_end_ns)},
      {"comm_ns", text(stats.comm_ns())},
      {"overlap_ns", text(stats.overlap_ns())},
      {"overlap_share", text(stats.overlap_share())}};
  std::string sizes;
  for (const BucketRange& bucket : reducer.gradients().layout().buckets)
    sizes += text(
        sizes.empty() ? "" : ", ",
        static_cast<size_t>(bucket.elements) * c10::elementSize(bucket.dtype));
  data["bucket_bytes"] = sizes;
  std::string hooks;
  for (const auto& hook : options.hooks)
    hooks += text(hooks.empty() ? "" : ", ", hook->name());
  data["hooks"] = hooks;
  const Environment env = Environment::of_process();
  for (const char* name :
       {"RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "OMP_NUM_THREADS",
        "TRIREME_BACKEND",
        "TRIREME_TIMEOUT"})
    data[text("env ", name)] = env.find(name).value_or("unset");
  return data;
}

}  // namespace trireme::dp
