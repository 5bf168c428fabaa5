#include "trireme/dp/trace.h"

#include <algorithm>
#include <set>

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

/// The same round by the clock of the first rank.
RoundStats shifted(RoundStats round, const comm::ClockOffset& clock) {
  for (int64_t* time : {&round.start_ns, &round.backward_end_ns, &round.end_ns})
    *time += clock.ns;
  for (BucketTime& bucket : round.buckets)
    for (int64_t* time : {&bucket.ready_ns, &bucket.start_ns, &bucket.end_ns})
      *time += clock.ns;
  return round;
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

std::string to_chrome_trace(
    const std::vector<RoundStats>& rounds, int rank, const comm::ClockOffset& clock) {
  enum Track { Backward, Waits, Reductions };
  Json events = Json::array(
      {{{"name", "process_name"},
        {"ph", "M"},
        {"pid", rank},
        {"args", {{"name", text("rank ", rank)}}}},
       track_name(rank, Backward, "backward"),
       track_name(rank, Waits, "buckets that are full"),
       track_name(rank, Reductions, "reductions")});
  for (const RoundStats& each : rounds) {
    const RoundStats round = shifted(each, clock);
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

namespace {

template <class List, class F>
std::string joined(const List& list, const F& f) {
  std::string out;
  for (const auto& one : list)
    out += text(out.empty() ? "" : ", ", f(one));
  return out;
}

/// Of the buckets as they are now, a pair of braces around the parameters of each.
std::string bucket_parameters(const Layout& layout) {
  return joined(layout.buckets, [](const BucketRange& bucket) {
    return text("{", joined(bucket.parameters, [](int i) { return i; }), "}");
  });
}

/// The parameters, how large they are, and which the last round has left out.
void add_parameters(std::map<std::string, std::string>& data, const Reducer& reducer) {
  int64_t bytes = 0;
  int64_t unused = 0;
  std::set<std::string> dtypes;
  const auto& used = reducer.outcome().used;
  for (size_t i = 0; i < reducer.parameters().size(); ++i) {
    const at::Tensor& tensor = reducer.parameters()[i].tensor;
    const auto its = static_cast<int64_t>(tensor.nbytes());
    bytes += its;
    unused += !used.empty() && used[i] == 0 ? its : 0;
    dtypes.insert(comm::dtype_name(tensor.scalar_type()));
  }
  data["num_parameter_tensors"] = text(reducer.parameters().size());
  data["total_parameter_size_bytes"] = text(bytes);
  data["unused_parameter_size"] = text(unused);
  data["dtypes"] = joined(dtypes, [](const std::string& name) { return name; });
}

void add_buckets(std::map<std::string, std::string>& data, const Reducer& reducer) {
  const Layout& layout = reducer.gradients().layout();
  const std::string sizes = joined(layout.buckets, [](const BucketRange& bucket) {
    return static_cast<size_t>(bucket.elements) * c10::elementSize(bucket.dtype);
  });
  data["bucket_sizes"] = sizes;
  data["has_rebuilt_buckets"] = text(reducer.rebuilds() > 0);
  data["rebuilt_bucket_sizes"] = reducer.rebuilds() > 0 ? sizes : "";
  data["rebuilt_per_bucket_param_indices"] = bucket_parameters(layout);
  data["prev_iteration_grad_ready_order_indices"] =
      joined(reducer.ready_order(), [](int i) { return i; });
}

}  // namespace

std::map<std::string, std::string> logging_data(const Replica& replica) {
  const Reducer& reducer = replica.reducer();
  const DataParallelOptions& options = replica.options();
  const RoundStats& stats = replica.stats();
  const Environment env = Environment::of_process();
  std::map<std::string, std::string> data{
      {"module_name", replica.module_name()},
      {"backend_name", std::string(replica.group().backend())},
      {"rank", text(replica.group().rank())},
      {"world_size", text(replica.group().size())},
      {"bucket_cap_bytes", text(options.limits().bytes.back())},
      {"find_unused_parameters", text(options.find_unused)},
      {"static_graph", text(options.static_graph)},
      {"gradient_as_bucket_view", "1"},
      {"broadcast_buffers", text(options.buffers.mode != BufferMode::Off)},
      {"comm_hook",
       joined(options.hooks, [](const auto& hook) { return hook->name(); })},
      {"iteration", text(reducer.rounds())},
      {"rebuilds", text(reducer.rebuilds())},
      {"reduced_bytes", text(stats.bytes())},
      {"backward_compute_time", text(stats.backward_end_ns - stats.start_ns)},
      {"backward_wait_time", text(stats.end_ns - stats.backward_end_ns)},
      {"backward_comm_time", text(stats.comm_ns())},
      {"backward_compute_comm_overlap_time", text(stats.overlap_ns())},
      {"overlap_share", text(stats.overlap_share())},
      {"master_addr", std::string(env.find("MASTER_ADDR").value_or("unset"))},
      {"master_port", std::string(env.find("MASTER_PORT").value_or("unset"))}};
  add_parameters(data, reducer);
  add_buckets(data, reducer);
  for (const char* name :
       {"RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "OMP_NUM_THREADS",
        "TRIREME_BACKEND",
        "TRIREME_TIMEOUT"})
    data[text("env ", name)] = env.find(name).value_or("unset");
  return data;
}

}  // namespace trireme::dp
