#include "trireme/core/slurm.h"

#include <charconv>
#include <numeric>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxTasks = 1'000'000;
// From here on the step ids mean the batch script, the interactive shell and their
// kind.
constexpr std::int64_t kFirstSpecialStep = 4'294'967'290;

// Takes a number off the front of `rest`; -1 when there is none from 1 to kMaxTasks.
std::int64_t take_number(std::string_view& rest) {
  std::int64_t number = 0;
  const auto [stop, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || number < 1 || number > kMaxTasks) {
    return -1;
  }
  rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
  return number;
}

bool take(std::string_view& rest, std::string_view expected) {
  const bool there = rest.starts_with(expected);
  rest.remove_prefix(there ? expected.size() : 0);
  return there;
}

// Takes "2(x3)" or "1" off the front of `rest` and adds its nodes to `tasks`.
bool take_item(std::string_view& rest, std::vector<int>& tasks) {
  const auto count = take_number(rest);
  std::int64_t nodes = 1;
  if (take(rest, "(x")) {
    nodes = take_number(rest);
    if (!take(rest, ")")) {
      return false;
    }
  }
  if (count < 0 || nodes < 0 || std::ssize(tasks) + nodes > kMaxTasks) {
    return false;
  }
  tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), static_cast<int>(count));
  return true;
}

void check_total(
    std::string_view name, std::string_view value, std::int64_t total, int world_size) {
  if (total == world_size) {
    return;
  }
  throw InvalidArgument(text(
      "[core] expected ",
      name,
      " to add up to SLURM_NTASKS=",
      world_size,
      ", got ",
      in_quotes(value),
      "; start the ranks with srun and leave its variables as they are"));
}

}  // namespace

bool in_slurm_step(const Environment& env) {
  const auto value = env.find("SLURM_STEP_ID");
  if (!value || !env.has("SLURM_PROCID")) {
    return false;
  }
  const auto step = parse_number<std::int64_t>(*value);
  return step && *step >= 0 && *step < kFirstSpecialStep;
}

std::vector<int> parse_slurm_tasks(std::string_view name, std::string_view value) {
  std::vector<int> tasks;
  std::string_view rest = value;
  do {
    if (!take_item(rest, tasks)) {
      break;
    }
    if (rest.empty()) {
      return tasks;
    }
  } while (take(rest, ","));
  throw InvalidArgument(text(
      "[core] expected ",
      name,
      " to be tasks per node, as 4, 4(x2) or 2(x3),1, got ",
      in_quotes(value),
      "; start the ranks with srun and leave its variables as they are"));
}

int slurm_local_size(const Environment& env, int world_size) {
  // The step's own variable comes first: the job's may differ from what this srun asked
  // for, and ntasks-per-node is only an upper limit.
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    if (const auto value = env.find(name)) {
      const auto tasks = parse_slurm_tasks(name, *value);
      const auto zero = std::int64_t{0};
      check_total(
          name, *value, std::accumulate(tasks.begin(), tasks.end(), zero), world_size);
      const auto node =
          tasks.size() == 1 ? 0 : env.integer("SLURM_NODEID", 0, std::ssize(tasks) - 1);
      return tasks[static_cast<std::size_t>(node)];
    }
  }
  return static_cast<int>(env.integer("SLURM_NTASKS_PER_NODE", 1, world_size));
}

}  // namespace trireme
