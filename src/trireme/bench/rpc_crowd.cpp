#include "trireme/bench/rpc_crowd.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <thread>
#include <utility>

#include <ATen/ATen.h>

#include "trireme/core/error.h"
#include "trireme/core/proc_text.h"

namespace trireme::bench {
namespace {

using CrowdClock = std::chrono::steady_clock;

const rpc::Function<int64_t()> calls_served{.name = "calls_served"};
const rpc::Function<double()> memory_used{.name = "memory_used"};

constexpr rpc::ShutdownOptions kCrowdEnd{.timeout = std::chrono::minutes(1)};

// `work` for each client, on a thread of its own; throws what one of them threw.
template <class Work>
void for_each_client(int clients, const Work& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(clients));
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < errors.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  threads.clear();
  for (const auto& error : errors)
    if (error)
      std::rethrow_exception(error);
}

// What one client has seen.
struct ClientView {
  std::vector<double> times;  // seconds
  double growth_kib = 0;      // of the server, for a client that looks
};

ClientView call_until_end(const rpc::Caller& server, const RpcJob& job, bool looks) {
  const at::Tensor x = at::ones({std::max<int64_t>(1, job.bytes / 4)});
  const std::chrono::duration<double> whole(job.seconds);
  ClientView view;
  double before = 0;
  const auto start = CrowdClock::now();
  auto now = start;
  while (now - start < whole) {
    expect_echo(x, server.call(rpc_echo, x));
    const auto end = CrowdClock::now();
    view.times.push_back(std::chrono::duration<double>(end - now).count());
    if (looks && before == 0 && end - start > whole / 3)
      before = server.call(memory_used);
    now = CrowdClock::now();
  }
  if (looks && before != 0)
    view.growth_kib = server.call(memory_used) - before;
  return view;
}

double resident_now() {
  return static_cast<double>(
      parse_kib(read_text_file("/proc/self/status").value_or(""), "VmRSS"));
}

}  // namespace

std::vector<double> crowd_row(
    std::vector<double> times, int64_t served, double growth_kib) {
  const auto calls = static_cast<int64_t>(times.size());
  if (times.empty())
    throw Error(
        "[bench] expected a crowd to call at least once, got no calls; give it more "
        "time");
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const double tail = times[times.size() * 99 / 100];
  std::vector<double> row(4);
  const auto put = [&row](CrowdFigure figure, double value) {
    row[static_cast<size_t>(figure)] = value;
  };
  put(CrowdFigure::Lost, static_cast<double>(std::abs(calls - served)));
  put(CrowdFigure::Tail, tail / median);
  put(CrowdFigure::Growth, std::max(0.0, growth_kib));
  put(CrowdFigure::Median, 1e6 * median);
  return row;
}

std::vector<double> call_as_crowd(
    const RpcJob& job, const std::string& world, const RpcMeeting& meeting) {
  const auto count = static_cast<size_t>(job.clients);
  std::vector<std::unique_ptr<rpc::Agent>> agents(count);
  std::vector<ClientView> views(count);
  for_each_client(job.clients, [&](size_t i) {
    const auto rank = static_cast<int>(i) + 1;
    auto options =
        rpc_bench_agent(meeting, job.wire, text("client", rank), rank, job.clients + 1);
    options.world = world;
    agents[i] = std::make_unique<rpc::Agent>(std::move(options));
  });
  for_each_client(job.clients, [&](size_t i) {
    views[i] = call_until_end(agents[i]->to(0), job, i == 0);
  });
  const int64_t served = agents.front()->to(0).call(calls_served);
  for_each_client(job.clients, [&](size_t i) { agents[i]->shutdown(kCrowdEnd); });
  std::vector<double> times;
  for (const ClientView& view : views)
    times.insert(times.end(), view.times.begin(), view.times.end());
  return crowd_row(std::move(times), served, views.front().growth_kib);
}

void serve_crowd(
    const RpcJob& job, const std::string& world, const RpcMeeting& meeting) {
  std::atomic<int64_t> served{0};
  auto options = rpc_bench_agent(meeting, job.wire, "server", 0, job.clients + 1);
  options.world = world;
  options.functions.add(rpc_echo, [&served](const at::Tensor& x) {
    ++served;
    return x;
  });
  options.functions.add(calls_served, [&served] { return served.load(); });
  options.functions.add(memory_used, resident_now);
  rpc::Agent(std::move(options)).shutdown(kCrowdEnd);
}

}  // namespace trireme::bench
