#include "trireme/dist_autograd/pace.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "trireme/core/error.h"

namespace trireme::dist_autograd {
namespace {

std::string described(const TrainerGroup& group) {
  std::string trainers;
  for (const std::string& trainer : group.trainers)
    trainers += (trainers.empty() ? "" : ", ") + trainer;
  return text("{", trainers, "} with staleness ", group.staleness);
}

void check_group(const TrainerGroup& group, const std::string& trainer) {
  const auto& all = group.trainers;
  if (group.staleness < 0)
    throw InvalidArgument(text(
        "[dist_autograd] expected a staleness of at least 0, got ",
        group.staleness,
        "; 0 has all trainers step together"));
  if (group.name.empty() || std::find(all.begin(), all.end(), trainer) == all.end())
    throw InvalidArgument(text(
        "[dist_autograd] expected a group of trainers with a name and ",
        trainer,
        " among them, got \"",
        group.name,
        "\" of ",
        described(group),
        "; name all workers that step these parameters"));
}

}  // namespace

void Paces::join(const TrainerGroup& group, const std::string& trainer) {
  check_group(group, trainer);
  const std::lock_guard lock(mutex_);
  const auto [found, made] = groups_.try_emplace(group.name);
  Group& here = found->second;
  if (made) {
    here.facts = group;
    for (const std::string& name : group.trainers)
      here.trainers[name];
  }
  if (described(here.facts) != described(group))
    throw InvalidArgument(text(
        "[dist_autograd] expected all trainers of \"",
        group.name,
        "\" to say ",
        described(here.facts),
        ", got ",
        described(group),
        " from ",
        trainer,
        "; give all the same options, or groups of different names"));
  Trainer& own = here.trainers[trainer];
  if (own.is == Is::There)
    throw InvalidArgument(text(
        "[dist_autograd] expected one optimizer of each trainer in \"",
        group.name,
        "\", got another one of ",
        trainer,
        "; end the first, or take another group"));
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  for (const auto& [name, other] : here.trainers)
    if (name != trainer && (other.is == Is::There || other.is == Is::Expected))
      slowest = std::min(slowest, other.steps);
  const bool alone = slowest == std::numeric_limits<std::int64_t>::max();
  own = {
      .is = Is::There, .steps = own.is == Is::Expected || alone ? own.steps : slowest};
}

rpc::Future<PaceAnswer> Paces::done(
    const std::string& group, const std::string& trainer) {
  Over over;
  rpc::Future<PaceAnswer> future;
  {
    const std::lock_guard lock(mutex_);
    Group& here = of(group, trainer);
    const std::int64_t steps = ++here.trainers[trainer].steps;
    here.waits.push_back({trainer, steps - here.facts.staleness, {}});
    future = here.waits.back().promise.future();
    look(here, over);
  }
  tell(std::move(over));
  return future;
}

void Paces::leave(const std::string& group, const std::string& trainer) {
  Over over;
  {
    const std::lock_guard lock(mutex_);
    Group& here = of(group, trainer);
    here.trainers[trainer].is = Is::Left;
    look(here, over);
    drop_if_empty(group);
  }
  tell(std::move(over));
}

void Paces::forget(const std::string& trainer) {
  Over over;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (auto& [name, group] : groups_) {
      const auto found = group.trainers.find(trainer);
      if (found == group.trainers.end() || found->second.is != Is::There)
        continue;
      found->second.is = Is::Gone;
      group.waits.remove_if([&](const Wait& wait) { return wait.trainer == trainer; });
      look(group, over);
      names.push_back(name);
    }
    for (const std::string& name : names)
      drop_if_empty(name);
  }
  tell(std::move(over));
}

std::vector<std::string> Paces::late(
    const std::string& group, const std::string& trainer) {
  const std::lock_guard lock(mutex_);
  const Group& here = of(group, trainer);
  const std::int64_t wanted = here.trainers.at(trainer).steps - here.facts.staleness;
  std::vector<std::string> late;
  for (const auto& [name, other] : here.trainers)
    if (name != trainer && other.is != Is::Left && other.steps < wanted)
      late.push_back(text(
          name,
          other.is == Is::Expected ? " has not begun" : " has done ",
          other.is == Is::Expected ? "" : text(other.steps, " steps of ", wanted)));
  return late;
}

std::size_t Paces::size() const {
  const std::lock_guard lock(mutex_);
  return groups_.size();
}

Paces::Group& Paces::of(const std::string& group, const std::string& trainer) {
  const auto found = groups_.find(group);
  if (found != groups_.end()) {
    const auto own = found->second.trainers.find(trainer);
    if (own != found->second.trainers.end() && own->second.is == Is::There)
      return found->second;
  }
  throw InvalidArgument(text(
      "[dist_autograd] expected a trainer that has joined \"",
      group,
      "\", got ",
      trainer,
      ", which has not, or was gone meanwhile; make its optimizer anew"));
}

bool Paces::is_over(const Group& group, const Wait& wait, PaceAnswer& answer) {
  bool over = true;
  for (const auto& [name, other] : group.trainers) {
    if (name == wait.trainer || other.is == Is::Left || other.steps >= wait.others)
      continue;
    if (other.is == Is::Gone) {
      answer = name;
      return true;
    }
    over = false;
  }
  return over;
}

void Paces::look(Group& group, Over& over) {
  for (auto at = group.waits.begin(); at != group.waits.end();) {
    PaceAnswer answer;
    if (is_over(group, *at, answer)) {
      over.emplace_back(std::move(*at), std::move(answer));
      at = group.waits.erase(at);
    } else {
      ++at;
    }
  }
}

void Paces::drop_if_empty(const std::string& name) {
  const Group& group = groups_.at(name);
  const bool empty =
      std::none_of(group.trainers.begin(), group.trainers.end(), [](const auto& entry) {
        return entry.second.is == Is::There || entry.second.is == Is::Expected;
      });
  if (empty)
    groups_.erase(name);
}

void Paces::tell(Over over) {
  for (auto& [wait, answer] : over)
    wait.promise.set_value(std::move(answer));
}

}  // namespace trireme::dist_autograd
