#include "trireme/bench/net_worker.h"

#include <chrono>
#include <malloc.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "trireme/bench/job.h"
#include "trireme/bench/protocol.h"
#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/proc_text.h"

namespace trireme::bench {
namespace {

using Seconds = std::chrono::duration<double>;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(30));
}

double resident_kib() {
  return static_cast<double>(
      parse_kib(read_text_file("/proc/self/status").value_or(""), "VmRSS"));
}

// A connection is a file, and the usual limit is just above a thousand.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

[[noreturn]] void refuse_job(
    const char* what, const char* choice, const std::string& got) {
  throw InvalidArgument(text(
      "[bench] expected ",
      what,
      " to be ",
      choice,
      ", got ",
      in_quotes(got),
      "; take one of them"));
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    NetJob, wire, op, bytes, reply, connections, port, warm_up, repetitions)

std::string to_line(const NetJob& job) {
  return nlohmann::json(job).dump();
}

NetJob parse_net_job(const std::string& line) {
  return parse_job<NetJob>(line);
}

std::vector<double> NetWorker::work(const NetJob& job) {
  if (job.op == "ask" || job.op == "chain")
    return ask(job);
  if (job.op == "overtake")
    return overtake(job);
  if (job.op == "idle")
    return stay_idle(job);
  refuse_job("op", "ask, chain, overtake or idle", job.op);
}

bool NetWorker::is_ours(const NetJob& job) const {
  return job.wire == "plain" || job.wire == "key";
}

std::unique_ptr<NodeEnd> NetWorker::make_node(const NetJob& job) const {
  if (!is_ours(job))
    refuse_job("wire", "plain or key", job.wire);
  net::Security security = job.wire == "key" ? net::Security::job_key(key_)
                                             : net::Security::insecure_loopback();
  return std::make_unique<NodeEnd>(std::move(security), side(), job.port, soon());
}

NodeEnd& NetWorker::node_end(const NetJob& job) {
  auto& place = nodes_[job.wire];
  if (!place)
    place = make_node(job);
  return *place;
}

NetEnd& NetWorker::limit_end(const NetJob& job) {
  auto& place = limits_[job.wire];
  if (place)
    return *place;
  if (job.wire != "socket" && job.wire != "openssl")
    refuse_job("wire", "socket, openssl, plain or key", job.wire);
  FileDescriptor socket = meet_at(job.port, side(), soon());
  place = job.wire == "socket" ? raw_end(std::move(socket))
                               : ssl_end(std::move(socket), side(), key_);
  return *place;
}

NetEnd& NetWorker::end(const NetJob& job) {
  return is_ours(job) ? node_end(job) : limit_end(job);
}

std::vector<double> NetWorker::ask(const NetJob& job) {
  message_.resize(static_cast<size_t>(job.bytes));
  reply_.resize(static_cast<size_t>(job.reply));
  NetEnd& other = end(job);
  const int count = job.warm_up + job.repetitions;
  std::vector<double> row(static_cast<size_t>(count));
  if (side() == net::Side::Acceptor) {
    other.serve(count, message_, reply_);
  } else if (job.op == "chain") {
    row = node_end(job).ask_in_chain(count, message_, reply_);
  } else {
    for (double& seconds : row) {
      const auto start = NodeEnd::Clock::now();
      other.ask(message_, reply_);
      seconds = Seconds(NodeEnd::Clock::now() - start).count();
    }
  }
  row.erase(row.begin(), row.begin() + job.warm_up);
  return row;
}

std::vector<double> NetWorker::overtake(const NetJob& job) {
  message_.resize(static_cast<size_t>(job.bytes));
  NodeEnd& other = node_end(job);
  std::vector<NodeEnd::Clock::time_point> times;
  if (side() == net::Side::Acceptor)
    times = other.serve_overtaking(job.repetitions, message_);
  for (int i = 0; i < job.repetitions && side() == net::Side::Dialer; ++i)
    times.push_back(other.overtake(message_));
  std::vector<double> row;
  for (const auto& when : times)
    row.push_back(Seconds(when.time_since_epoch()).count());
  return row;
}

// A node of its own, so that nothing of the others' memory is used again.
std::vector<double> NetWorker::stay_idle(const NetJob& job) {
  const auto node = make_node(job);
  std::byte word[1] = {};
  ::malloc_trim(0);  // else what others gave back would be used again, and not be seen
  const double before = resident_kib();
  node->add_sessions(job.connections, soon());
  const double after = resident_kib();
  // Neither closes any before the other has looked.
  if (side() == net::Side::Dialer)
    node->ask(word, word);
  else
    node->serve(1, word, word);
  node->drop_sessions(soon());
  return {after - before};
}

int run_net_worker(std::istream& in, std::ostream& out) {
  return serve_jobs(in, out, [] {
    allow_many_files();
    const Environment env = Environment::of_process();
    auto worker = std::make_shared<NetWorker>(
        read_launch_env(env).rank,
        net::JobKey::parse(env.find("TRIREME_JOB_KEY").value_or("")));
    return
        [worker](const std::string& line) { return worker->work(parse_net_job(line)); };
  });
}

}  // namespace trireme::bench
