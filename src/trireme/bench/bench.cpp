#include "trireme/bench/bench.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "trireme/bench/comm.h"
#include "trireme/bench/comm_worker.h"
#include "trireme/bench/ddp.h"
#include "trireme/bench/ddp_worker.h"
#include "trireme/bench/dist_autograd.h"
#include "trireme/bench/dist_autograd_worker.h"
#include "trireme/bench/json.h"
#include "trireme/bench/launch.h"
#include "trireme/bench/net.h"
#include "trireme/bench/net_worker.h"
#include "trireme/bench/peer.h"
#include "trireme/bench/pipe.h"
#include "trireme/bench/pipe_worker.h"
#include "trireme/bench/rpc.h"
#include "trireme/bench/rpc_worker.h"
#include "trireme/bench/schedule.h"
#include "trireme/bench/schedule_worker.h"
#include "trireme/bench/train.h"
#include "trireme/bench/train_worker.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/nearest.h"

namespace trireme::bench {
namespace {

// What the command line said.
struct BenchCommand {
  std::string what;
  MeasureOptions measure;
  bool check = false;
  std::string json;
  std::string compare;
  std::string worker;
  int worker_threads = 0;
  bool worker_led = false;
};

// A benchmark: how it runs, and what its own worker processes do.
struct Bench {
  const char* name;
  BenchReport (*run)(const MeasureOptions&);
  int (*work)(const BenchCommand&);
};

int work_comm(const BenchCommand& command) {
  return run_comm_worker(
      {.thread_ranks = command.worker_threads, .led = command.worker_led});
}

int work_ddp(const BenchCommand&) {
  return run_ddp_worker(std::cin, std::cout);
}

int work_dist_autograd(const BenchCommand&) {
  return run_gradient_worker(std::cin, std::cout);
}

int work_launch(const BenchCommand&) {
  return run_launch_worker();
}

int work_net(const BenchCommand&) {
  return run_net_worker(std::cin, std::cout);
}

int work_pipe(const BenchCommand&) {
  return run_pipe_worker(std::cin, std::cout);
}

int work_rpc(const BenchCommand&) {
  return run_rpc_worker(std::cin, std::cout);
}

int work_schedule(const BenchCommand&) {
  return run_schedule_worker(std::cin, std::cout);
}

int work_train(const BenchCommand&) {
  return run_train_worker(std::cin, std::cout);
}

constexpr Bench kBenches[] = {
    {"comm", bench_comm, work_comm},
    {"ddp", bench_ddp, work_ddp},
    {"dist-autograd", bench_dist_autograd, work_dist_autograd},
    {"launch", bench_launch, work_launch},
    {"net", bench_net, work_net},
    {"pipe", bench_pipe, work_pipe},
    {"rpc", bench_rpc, work_rpc},
    {"schedule", bench_schedule, work_schedule},
    {"train", bench_train, work_train},
};

const Bench& find_bench(const std::string& name) {
  std::vector<std::string> names;
  for (const Bench& bench : kBenches) {
    if (name == bench.name)
      return bench;
    names.push_back(bench.name);
  }
  std::string all;
  for (const std::string& one : names)
    all += text(all.empty() ? "" : ", ", one);
  const std::string meant = did_you_mean(name, names);
  throw InvalidArgument(text(
      "[bench] expected a benchmark (",
      all,
      "), got ",
      in_quotes(name),
      meant.empty() ? "; see trireme bench --help" : meant));
}

// A run takes minutes: what would fail at its end should fail now.
void check_writable(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none))
    throw InvalidArgument(text(
        "[bench] expected --json in a folder that exists, got ",
        in_quotes(path),
        "; make the folder first"));
}

void print_machine(const Record& record) {
  constexpr double kIdle = 0.5;
  std::cout << record.machine << ", load " << record.load
            << (record.load > kIdle ? " (busy: the figures are disturbed)" : "")
            << "\n\n";
}

void print_list(const char* title, const std::vector<std::string>& lines) {
  if (!lines.empty())
    std::cout << "\n" << title << "\n";
  for (const std::string& line : lines)
    std::cout << "  " << line << "\n";
}

std::vector<std::string> compare(
    const std::vector<Record>& before, const std::vector<Record>& now) {
  if (!before.empty() && !now.empty() && before.front().machine != now.front().machine)
    std::cerr << "The older figures are of another machine (" << before.front().machine
              << "): slower may mean only that.\n";
  return regressions(before, now);
}

int run_bench(BenchCommand command) {
  const Bench& bench = find_bench(command.what);
  if (!command.measure.backend.empty() && command.what != "comm")
    throw InvalidArgument(text(
        "[cli] expected --backend with comm alone, got it with ",
        command.what,
        "; leave it out"));
  std::vector<Record> before;
  if (!command.compare.empty())
    before = read_records(command.compare);
  if (!command.json.empty())
    check_writable(command.json);
  command.measure.program = this_program();

  const BenchReport report = bench.run(command.measure);
  if (!command.json.empty())
    write_records(command.json, report.records);
  print_machine(report.records.front());
  std::cout << to_table(report.records);
  if (!report.no_peer.empty())
    std::cout << "\nNo peer: " << report.no_peer << "\n";
  const auto short_cases = shortfalls(report.records);
  if (command.check)
    print_list("Short of the goal:", short_cases);
  const auto slower = compare(before, report.records);
  print_list("Slower than before:", slower);
  std::cout << std::flush;
  return command.check && (!short_cases.empty() || !slower.empty()) ? 1 : 0;
}

int run_command(const BenchCommand& command) {
  try {
    if (!command.worker.empty())
      return find_bench(command.worker).work(command);
    return run_bench(command);
  } catch (const InvalidArgument& error) {
    std::cerr << "trireme: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<BenchCommand>();
  CLI::App* bench =
      app.add_subcommand("bench", "Figures beside PyTorch: ours and the peer in turn");
  CLI::Option* what = bench->add_option(
      "WHAT",
      command->what,
      "The benchmark: comm, ddp, dist-autograd, launch, net, pipe, rpc, schedule or "
      "train");
  bench->add_flag("--quick", command->measure.quick, "Fewer rounds: under a minute");
  bench->add_flag(
      "--check",
      command->check,
      "Exit 1 and name the cases that fall short of their goal");
  bench->add_option("--json", command->json, "Write the records to this file")
      ->type_name("FILE");
  bench
      ->add_option(
          "--compare", command->compare, "Name what is slower than in this file")
      ->type_name("OLD.json");
  bench
      ->add_option(
          "--backend",
          command->measure.backend,
          "Whose cases, of comm: shm (the default), tcp or mpi")
      ->type_name("NAME");
  bench
      ->add_option(
          "--case", command->measure.only, "Only cases whose name contains this")
      ->type_name("TEXT");
  bench
      ->add_option("--rounds", command->measure.rounds, "Rounds a case (else about 20)")
      ->check(CLI::Range(1, 10000).description(""))
      ->type_name("N");
  // How the benchmark starts its own workers; an empty group hides them from --help.
  bench->add_option("--worker", command->worker)->group("");
  bench->add_flag("--worker-led", command->worker_led)->group("");
  bench->add_option("--worker-threads", command->worker_threads)
      ->check(CLI::Range(1, 1024))
      ->group("");
  bench->footer("Example: trireme bench comm --quick --json comm.json");
  bench->callback([command, what, &exit_code] {
    if (what->empty() && command->worker.empty())
      throw CLI::RequiredError(
          "WHAT (comm, ddp, dist-autograd, launch, net, pipe, rpc, schedule or train)");
    exit_code = run_command(*command);
  });
}

}  // namespace trireme::bench
