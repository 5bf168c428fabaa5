#include "trireme/bench/rpc_worker.h"

#include <chrono>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "trireme/bench/job.h"
#include "trireme/bench/protocol.h"
#include "trireme/bench/rpc_crowd.h"
#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/log.h"
#include "trireme/net/rendezvous.h"

namespace trireme::bench {
namespace {

using RpcClock = std::chrono::steady_clock;

rpc::FunctionTable echoes() {
  const auto same = [](const at::Tensor& x) { return x; };
  rpc::FunctionTable functions;
  functions.add(rpc_echo, same);
  functions.add(rpc_quick_echo, same, {.quick = true});
  return functions;
}

// One repetition: as many echoes as the job says.
void echo(const rpc::Caller& other, const RpcJob& job, const at::Tensor& x) {
  const auto& function = job.quick ? rpc_quick_echo : rpc_echo;
  if (job.op == "echo")
    return expect_echo(x, other.call(function, x));
  std::vector<rpc::Future<at::Tensor>> results;
  results.reserve(static_cast<size_t>(job.calls));
  for (int i = 0; i < job.calls; ++i)
    results.push_back(other.async(function, x));
  for (auto& result : results)
    expect_echo(x, result.get());
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    RpcJob, op, wire, quick, bytes, calls, clients, seconds, warm_up, repetitions)

std::string to_line(const RpcJob& job) {
  return nlohmann::json(job).dump();
}

RpcJob parse_rpc_job(const std::string& line) {
  return parse_job<RpcJob>(line);
}

rpc::AgentOptions rpc_bench_agent(
    const RpcMeeting& meeting,
    const std::string& wire,
    std::string name,
    int rank,
    int world_size) {
  rpc::AgentOptions options{
      .name = std::move(name),
      .role = "bench",
      .store = meeting.store,
      .rank = rank,
      .world_size = world_size};
  auto& transport = options.transport.emplace();
  transport.security = wire == "plain" ? net::Security::insecure_loopback()
                                       : net::Security::job_key(meeting.key);
  if (wire == "tls")
    transport.unix_sockets = transport.shared_memory = false;
  return options;
}

void expect_echo(const at::Tensor& sent, const at::Tensor& got) {
  const auto* before = sent.const_data_ptr<float>();
  const auto* after = got.const_data_ptr<float>();
  const auto last = sent.numel() - 1;
  if (got.numel() != sent.numel() || after[0] != before[0] ||
      after[last] != before[last])
    throw Error(
        "[bench] expected an echo to be what was sent, got something else; this is a "
        "bug");
}

RpcWorker::RpcWorker(int rank, RpcMeeting meeting)
    : rank_(rank), meeting_(std::move(meeting)) {}

RpcWorker::~RpcWorker() {
  for (auto& [wire, agent] : agents_)
    try {
      agent->shutdown({.timeout = std::chrono::seconds(2)});
    } catch (const std::exception& error) {
      // All was measured by now.
      TRIREME_LOG(debug, "bench") << "the end of " << wire << ": " << error.what();
    }
}

rpc::Agent& RpcWorker::agent(const std::string& wire) {
  auto& place = agents_[wire];
  if (place)
    return *place;
  auto options = rpc_bench_agent(meeting_, wire, text("worker", rank_), rank_, 2);
  options.functions = echoes();
  options.world = wire;
  place = std::make_unique<rpc::Agent>(std::move(options));
  return *place;
}

std::vector<double> RpcWorker::work(const RpcJob& job) {
  if (job.wire != "host" && job.wire != "tls" && job.wire != "plain")
    throw InvalidArgument(text(
        "[bench] expected wire to be host, tls or plain, got ",
        in_quotes(job.wire),
        "; take one of them"));
  if (job.op == "crowd") {
    const std::string world = text("crowd", crowds_++);
    if (rank_ == 0)
      return call_as_crowd(job, world, meeting_);
    serve_crowd(job, world, meeting_);
    return {};
  }
  if (job.op != "echo" && job.op != "burst")
    throw InvalidArgument(text(
        "[bench] expected op to be echo, burst or crowd, got ",
        in_quotes(job.op),
        "; take one of them"));
  return time_calls(job);
}

std::vector<double> RpcWorker::time_calls(const RpcJob& job) {
  const rpc::Agent& agent = this->agent(job.wire);
  if (rank_ != 0)
    return {};
  const auto other = agent.to(1);
  const at::Tensor x = at::ones({std::max<int64_t>(1, job.bytes / 4)});
  std::vector<double> row;
  for (int i = 0; i < job.warm_up + job.repetitions; ++i) {
    const auto start = RpcClock::now();
    echo(other, job, x);
    const std::chrono::duration<double> time = RpcClock::now() - start;
    if (i >= job.warm_up)
      row.push_back(time.count());
  }
  return row;
}

int run_rpc_worker(std::istream& in, std::ostream& out) {
  at::set_num_threads(1);
  return serve_jobs(in, out, [] {
    const Environment env = Environment::of_process();
    const int rank = read_launch_env(env).rank;
    auto worker = std::make_shared<RpcWorker>(
        rank,
        RpcMeeting{
            .store = net::open_store("env://", {.env = env, .rank = rank}),
            .key = net::JobKey::parse(env.find("TRIREME_JOB_KEY").value_or(""))});
    return
        [worker](const std::string& line) { return worker->work(parse_rpc_job(line)); };
  });
}

}  // namespace trireme::bench
