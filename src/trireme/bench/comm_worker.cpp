#include "trireme/bench/comm_worker.h"

#include <chrono>
#include <ctime>
#include <functional>
#include <iostream>
#include <thread>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "trireme/bench/comm_mpi.h"
#include "trireme/comm/agree.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
// One repetition: barrier, then the operation under the clock.
using Timed = std::function<double()>;

// Long enough for the waiting ranks to be asleep, which is the slow way to be woken.
constexpr auto kBeforeAbort = std::chrono::milliseconds(1);
// Neither near the beginning nor near the end of a call.
constexpr auto kIntoTheWork = std::chrono::milliseconds(37);

template <class Body>
double timed(const comm::Group& world, Body&& body) {
  comm::barrier(world);
  const auto start = Clock::now();
  body();
  return Seconds(Clock::now() - start).count();
}

at::ScalarType dtype_of(const CommJob& job) {
  if (job.dtype == "float32")
    return at::kFloat;
  if (job.dtype == "bfloat16")
    return at::kBFloat16;
  throw InvalidArgument(text(
      "[bench] expected dtype float32 or bfloat16, got ",
      job.dtype,
      "; take one of them"));
}

at::Tensor make_tensor(const comm::Group& world, const CommJob& job) {
  const at::TensorOptions options(dtype_of(job));
  const auto element = static_cast<int64_t>(options.dtype().itemsize());
  const int64_t count = std::max<int64_t>(1, job.bytes / element);
  return job.in_segment ? world.allocate({count}, options)
                        : at::empty({count}, options);
}

double first_and_last(const at::Tensor& flat) {
  return flat[0].item<double>() + flat[-1].item<double>();
}

void expect_sum(double got, double wanted, const char* op) {
  if (got != wanted)
    throw InternalError(text(
        "[bench] expected ",
        op,
        " to give ",
        wanted,
        " as first plus last, got ",
        got));
}

Timed all_reduce(const comm::Group& world, const CommJob& job) {
  at::Tensor tensor = make_tensor(world, job);
  tensor.fill_(world.rank() + 1);
  comm::all_reduce(world, tensor);
  expect_sum(first_and_last(tensor), world.size() * (world.size() + 1), "all_reduce");
  // Ones would double with every repetition and end as infinities.
  tensor.zero_();
  return [world, tensor] {
    return timed(world, [&] { comm::all_reduce(world, tensor); });
  };
}

// The same by MPI itself; the group is only asked who takes part.
Timed all_reduce_by_mpi(const comm::Group& world, const CommJob& job) {
  const at::Tensor tensor = make_tensor(world, job).fill_(world.rank() + 1);
  const std::span values(tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel()));
  mpi_all_reduce(values);
  expect_sum(
      first_and_last(tensor), world.size() * (world.size() + 1), "MPI_Allreduce");
  tensor.zero_();
  return [tensor, values] {
    mpi_barrier();
    const auto start = Clock::now();
    mpi_all_reduce(values);
    return Seconds(Clock::now() - start).count();
  };
}

comm::Group join_as_two_hosts() {
  return comm::init(
      on_two_hosts(read_launch_env(Environment::of_process())), {.backend = "mpi"});
}

// Rank 1 sends back what it got, as the peer does; both look at the first and the last
// element of what they get.
Timed ping_pong(const comm::Group& world, const CommJob& job) {
  if (world.size() != 2 || job.dtype != "float32")
    throw InvalidArgument(text(
        "[bench] expected a ping_pong of float32 between 2 ranks, got ",
        job.dtype,
        " and ",
        world.size(),
        "; change the job"));
  const at::Tensor tensor = make_tensor(world, job).fill_(1);
  // By size, because the channels of the case before may still be open.
  const auto tag = static_cast<int>(job.bytes);
  const comm::Channel there(world, {.from = 0, .to = 1, .tag = tag});
  const comm::Channel back(world, {.from = 1, .to = 0, .tag = tag});
  const auto receive = [](const comm::Channel& channel) {
    comm::Message message = channel.receive();
    const at::Tensor& got = message.tensors.at(0);
    const float* values = got.const_data_ptr<float>();
    expect_sum(values[0] + values[got.numel() - 1], 2, "ping_pong");
    return message;
  };
  return [=] {
    return timed(world, [&] {
      if (world.rank() == 0) {
        there.send({.tensors = {tensor}, .header = {}});
        receive(back);
      } else {
        back.send(receive(there));
      }
    });
  };
}

// Points in time: when rank 0 gave up, and when each other rank heard of it. The last
// rank waits in a channel, the others in a collective.
Timed abort_and_renew(comm::Group& world) {
  return [&world] {
    comm::barrier(world);
    auto when = Clock::now();
    try {
      if (world.rank() == 0) {
        std::this_thread::sleep_for(kBeforeAbort);
        when = Clock::now();
        world.abort(
            "[bench] expected nothing, got a measured abort; this is a benchmark");
      } else if (world.rank() == world.size() - 1) {
        comm::Channel(world, {.from = 0, .to = world.rank()}).receive();
      } else {
        comm::barrier(world);
      }
    } catch (const PeerError&) {
      when = Clock::now();
    }
    world = world.renew();
    return Seconds(when.time_since_epoch()).count();
  };
}

// The same while all of them, rank 0 too, are in the midst of an all_reduce.
Timed abort_all_reduce(comm::Group& world, const CommJob& job) {
  return [&world, job] {
    at::Tensor tensor = make_tensor(world, job).zero_();
    comm::all_reduce(world, tensor);  // with connections, and memory that is there
    comm::barrier(world);
    auto when = Clock::now();
    std::thread stopper;
    if (world.rank() == 0)
      stopper = std::thread([&] {
        std::this_thread::sleep_for(kIntoTheWork);
        when = Clock::now();
        world.abort(
            "[bench] expected nothing, got a measured abort; this is a benchmark");
      });
    try {
      for (;;)
        comm::all_reduce(world, tensor);
    } catch (const PeerError&) {
      if (world.rank() != 0)
        when = Clock::now();
    }
    if (stopper.joinable())
      stopper.join();
    world = world.renew();
    return Seconds(when.time_since_epoch()).count();
  };
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The CPU time of a rank while all wait for rank 0.
Timed wait_for_late_rank(const comm::Group& world) {
  return [world] {
    comm::barrier(world);
    const double before = cpu_seconds();
    if (world.rank() == 0)
      std::this_thread::sleep_for(kLateRank);
    comm::barrier(world);
    return cpu_seconds() - before;
  };
}

Timed prepare(comm::Group& world, const CommJob& job) {
  if (job.op == "all_reduce")
    return all_reduce(world, job);
  if (job.op == "all_reduce_hosts")
    return all_reduce(join_as_two_hosts(), job);
  if (job.op == "MPI_Allreduce")
    return all_reduce_by_mpi(world, job);
  if (job.op == "ping_pong")
    return ping_pong(world, job);
  if (job.op == "abort")
    return abort_and_renew(world);
  if (job.op == "abort_all_reduce")
    return abort_all_reduce(world, job);
  if (job.op == "wait")
    return wait_for_late_rank(world);
  throw InvalidArgument(text(
      "[bench] expected op all_reduce, all_reduce_hosts, MPI_Allreduce, ping_pong, "
      "abort, abort_all_reduce or wait, got ",
      job.op,
      "; take one of them"));
}

// The operations in use, with their tensors. Two, because a case may compare two.
class Prepared {
 public:
  const Timed& get(comm::Group& world, const CommJob& job) {
    if (job.op.starts_with("abort"))
      ops_.clear();  // what belongs to the world that is about to stop
    const auto key = text(job.op, " ", job.bytes, " ", job.dtype, " ", job.in_segment);
    for (const auto& [name, op] : ops_)
      if (name == key)
        return op;
    if (ops_.size() == 2)
      ops_.erase(ops_.begin());
    ops_.emplace_back(key, prepare(world, job));
    return ops_.back().second;
  }

 private:
  std::vector<std::pair<std::string, Timed>> ops_;
};

std::vector<double> measure(
    comm::Group& world, Prepared& prepared, const std::string& line) {
  const CommJob job = parse_comm_job(line);
  const Timed& op = prepared.get(world, job);
  for (int i = 0; i < job.warm_up; ++i)
    op();
  std::vector<double> row;
  for (int i = 0; i < job.repetitions; ++i)
    row.push_back(op());
  return row;
}

// Rank 0's line on all ranks; nothing at the end.
std::optional<std::string> hand_round(
    const comm::Group& world, const std::optional<std::string>& line) {
  // A line may be empty.
  const std::string shared = comm::share_text(world, line ? "+" + *line : "");
  if (shared.empty())
    return std::nullopt;
  return shared.substr(1);
}

// Every rank's row; they are equally long.
Rows gather_rows(const comm::Group& world, const std::vector<double>& row) {
  const auto length = static_cast<int64_t>(row.size());
  const at::Tensor mine = at::empty({length}, at::kDouble);
  std::copy(row.begin(), row.end(), mine.data_ptr<double>());
  at::Tensor all = at::empty({length * world.size()}, at::kDouble);
  comm::all_gather(world, all, mine);
  const double* values = all.const_data_ptr<double>();
  Rows rows;
  for (int rank = 0; rank < world.size(); ++rank, values += length)
    rows.emplace_back(values, values + length);
  return rows;
}

}  // namespace

Desk::Desk(int seats, std::istream& in, std::ostream& out)
    : in_(in),
      out_(out),
      taken_(static_cast<size_t>(seats)),
      rows_(static_cast<size_t>(seats)) {}

std::optional<std::string> Desk::next(int seat) {
  int& taken = taken_[static_cast<size_t>(seat)];
  if (seat == 0) {
    std::string line;
    const bool more = static_cast<bool>(std::getline(in_, line));
    const std::lock_guard lock(mutex_);
    line_ = more ? std::optional(line) : std::nullopt;
    ++lines_;
    changed_.notify_all();
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return lines_ > taken || failed_; });
  ++taken;
  return failed_ ? std::nullopt : line_;
}

void Desk::answer(int seat, std::vector<double> row) {
  const std::lock_guard lock(mutex_);
  rows_[static_cast<size_t>(seat)] = std::move(row);
  if (++answers_ < rows_.size() || failed_)
    return;
  answers_ = 0;
  send(answer_line(rows_));
}

void Desk::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failed_)
    send(error_line(why));
  failed_ = true;
  changed_.notify_all();
}

void Desk::send(const std::string& line) {
  out_ << line << std::endl;
}

LaunchEnv on_two_hosts(LaunchEnv place) {
  const int half = place.world_size / 2;
  const bool first = place.rank < half;
  place.local_rank = first ? place.rank : place.rank - half;
  place.local_world_size = first ? half : place.world_size - half;
  return place;
}

void serve_comm(comm::Group world, Desk& desk, int seat) {
  try {
    Prepared prepared;
    while (const auto line = desk.next(seat))
      desk.answer(seat, measure(world, prepared, *line));
  } catch (const std::exception& error) {
    desk.fail(error.what());
    throw;
  }
}

void serve_led_comm(comm::Group world, Desk& desk) {
  const bool leads = world.rank() == 0;
  try {
    Prepared prepared;
    while (const auto line =
               hand_round(world, leads ? desk.next(0) : std::optional<std::string>())) {
      Rows rows = gather_rows(world, measure(world, prepared, *line));
      for (int seat = 0; leads && seat < world.size(); ++seat)
        desk.answer(seat, std::move(rows[static_cast<size_t>(seat)]));
    }
  } catch (const std::exception& error) {
    if (leads)
      desk.fail(error.what());
    throw;
  }
}

int run_comm_worker(const CommWorkerOptions& options) {
  at::set_num_threads(1);
  const bool threads = options.thread_ranks > 0;
  Desk desk(threads ? options.thread_ranks : 1, std::cin, std::cout);
  const auto ready = [] { std::cout << ready_line() << std::endl; };
  try {
    if (threads) {
      ready();
      comm::run_local(options.thread_ranks, [&](const comm::Group& world) {
        serve_comm(world, desk, world.rank());
      });
    } else {
      const comm::Group world = comm::init();
      if (options.led) {
        Desk seats(world.size(), std::cin, std::cout);
        if (world.rank() == 0)
          ready();
        serve_led_comm(world, seats);
        return 0;
      }
      ready();
      serve_comm(world, desk, 0);
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}

}  // namespace trireme::bench
