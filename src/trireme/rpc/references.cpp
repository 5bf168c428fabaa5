#include "trireme/rpc/references.h"

#include <utility>

#include "trireme/core/error.h"

namespace trireme::rpc {

References::References(
    WorkerId me, std::uint64_t first, std::shared_ptr<Releases> releases)
    : me_(me), next_(first), releases_(std::move(releases)) {}

Reference References::handle(ObjectId id, Owned& owned) {
  if (auto hold = owned.hold.lock())
    return Reference(std::move(hold));
  ++owned.handles;
  Reference reference(std::make_shared<Hold>(
      Hold::Facts{
          .id = id,
          .owner = me_,
          .fork = 0,
          .cargo = owned.cargo,
          .loss = std::make_shared<Loss>()},
      releases_));
  owned.hold = reference.hold();
  return reference;
}

Reference References::handle(ObjectId id, Held& held) {
  if (auto hold = held.hold.lock())
    return Reference(std::move(hold));
  ++held.handles;
  Reference reference(std::make_shared<Hold>(
      Hold::Facts{
          .id = id,
          .owner = held.owner,
          .fork = held.fork,
          .cargo = nullptr,
          .loss = held.loss},
      releases_));
  held.hold = reference.hold();
  return reference;
}

// A handle of what is not there: it says why as soon as it is used.
Reference References::lost(ObjectId id, WorkerId owner, const std::string& why) {
  auto loss = std::make_shared<Loss>();
  loss->set(why);
  return Reference(std::make_shared<Hold>(
      Hold::Facts{
          .id = id,
          .owner = owner,
          .fork = own_fork(),
          .cargo = nullptr,
          .loss = std::move(loss)},
      releases_));
}

Reference References::own(std::shared_ptr<void> cargo) {
  const ObjectId id{.creator = me_, .number = next()};
  Owned& owned = owned_[id];
  owned.cargo = std::move(cargo);
  return handle(id, owned);
}

References::Held& References::hold(
    ObjectId id, WorkerId owner, std::uint64_t fork, Stage stage) {
  Held& held = held_[id];
  held.owner = owner;
  held.fork = fork;
  held.stage = stage;
  held.loss = std::make_shared<Loss>();
  shares_[owner].held.insert(id);
  return held;
}

Reference References::name(WorkerId owner) {
  const ObjectId id{.creator = me_, .number = next()};
  return handle(id, hold(id, owner, id.number * 2, Stage::Naming));
}

Reference References::make(
    WorkerId creator, ObjectId id, std::shared_ptr<void> cargo, Consequences& then) {
  if (id.creator != creator || creator == me_ || has(id) || held_.count(id) > 0)
    throw InvalidArgument(text(
        "[rpc] expected a new name of worker ",
        creator,
        " for a value, got ",
        to_string(id),
        "; do not speak to workers with other programs"));
  Owned& owned = owned_[id];
  owned.cargo = std::move(cargo);
  owned.forks = 1;
  shares_[creator].forks.insert({id, id.number * 2});
  then.postings.push_back({creator, Note::Created, id, id.number * 2});
  return handle(id, owned);
}

void References::abandon(ObjectId id, const std::string& why, Consequences& then) {
  const auto found = held_.find(id);
  if (found != held_.end() && found->second.stage == Stage::Naming)
    lose(id, why, then);
}

References::Held* References::find(ObjectId id, std::uint64_t fork) {
  const auto found = held_.find(id);
  return found != held_.end() && found->second.fork == fork ? &found->second : nullptr;
}

bool References::must_wait(const Reference& reference) const {
  const auto found = held_.find(reference->id());
  return found != held_.end() && found->second.fork == reference->fork() &&
         found->second.stage == Stage::Naming;
}

bool References::listed(const Reference& reference) const {
  const auto found = held_.find(reference->id());
  return found != held_.end() && found->second.fork == reference->fork() &&
         found->second.stage == Stage::Listed;
}

TravelMark References::send(const Reference& reference, WorkerId to) {
  const ObjectId id = reference->id();
  TravelMark mark{.id = id, .owner = reference->owner()};
  if (mark.owner == me_) {
    const auto found = owned_.find(id);
    if (found == owned_.end() || reference->loss().happened())
      return mark;
    mark.passage = Passage::Granted;
    mark.number = granted_fork();
    ++found->second.forks;
    shares_[to].forks.insert({id, mark.number});
    return mark;
  }
  Held* held = find(id, reference->fork());
  if (held == nullptr)
    return mark;
  mark.passage = to == mark.owner ? Passage::Home : Passage::Lent;
  mark.number = next();
  ++held->pins;
  shares_[to].pins.insert({mark.number, {id, held->fork}});
  return mark;
}

Reference References::arrive(
    WorkerId from, const TravelMark& mark, Consequences& then) {
  const bool fits =
      mark.passage == Passage::Lost ||
      (mark.passage == Passage::Granted && mark.owner == from) ||
      (mark.passage == Passage::Home && mark.owner == me_) ||
      (mark.passage == Passage::Lent && mark.owner != me_ && mark.owner != from);
  if (!fits)
    throw InvalidArgument(text(
        "[rpc] expected a reference that worker ",
        from,
        " can send to worker ",
        me_,
        ", got one of worker ",
        mark.owner,
        "; do not speak to workers with other programs"));
  if (mark.passage != Passage::Lost)
    expect_possible(mark);
  switch (mark.passage) {
    case Passage::Granted:
      return granted(mark.id, mark.owner, mark.number, then);
    case Passage::Lent:
      return lent(from, mark, then);
    case Passage::Home: {
      then.postings.push_back({from, Note::Accept, mark.id, mark.number});
      const auto found = owned_.find(mark.id);
      if (found != owned_.end())
        return handle(mark.id, found->second);
      return lost(
          mark.id,
          me_,
          "its owner has dropped it, since all that held it were taken for gone");
    }
    case Passage::Lost:
      break;
  }
  return lost(
      mark.id, mark.owner, text("it was lost on worker ", from, ", which has sent it"));
}

// Two values under one name would spoil the book.
void References::expect_possible(const TravelMark& mark) const {
  const auto held = held_.find(mark.id);
  const bool elsewhere = held != held_.end() ? held->second.owner != mark.owner
                                             : mark.owner != me_ && has(mark.id);
  const bool later = mark.id.creator == me_ && mark.id.number >= next_;
  if (elsewhere || later)
    throw InvalidArgument(text(
        "[rpc] expected a value that worker ",
        mark.owner,
        " can have, got ",
        to_string(mark.id),
        later ? ", which has not been named yet" : ", which another one has",
        "; do not speak to workers with other programs"));
}

Reference References::granted(
    ObjectId id, WorkerId owner, std::uint64_t fork, Consequences& then) {
  const auto found = held_.find(id);
  if (found == held_.end())
    return handle(id, hold(id, owner, fork, Stage::Listed));
  // One fork is enough.
  then.postings.push_back({owner, Note::Remove, id, fork});
  return handle(id, found->second);
}

Reference References::lent(WorkerId from, const TravelMark& mark, Consequences& then) {
  auto found = held_.find(mark.id);
  if (found == held_.end()) {
    hold(mark.id, mark.owner, own_fork(), Stage::Adding);
    found = held_.find(mark.id);
    then.postings.push_back({mark.owner, Note::Add, mark.id, found->second.fork});
  }
  Held& held = found->second;
  if (held.stage == Stage::Listed)
    then.postings.push_back({from, Note::Accept, mark.id, mark.number});
  else
    held.debts.push_back({from, mark.number});
  return handle(mark.id, held);
}

void References::take(WorkerId from, const Posting& note, Consequences& then) {
  switch (note.note) {
    case Note::Add: {
      const auto found = owned_.find(note.id);
      const bool there = found != owned_.end();
      if (there && shares_[from].forks.insert({note.id, note.number}).second)
        ++found->second.forks;
      then.postings.push_back(
          {from, there ? Note::Added : Note::Refused, note.id, note.number});
      return;
    }
    case Note::Added:
    case Note::Created:
      return listed(note.id, note.number, then);
    case Note::Refused:
      if (Held* held = find(note.id, note.number); held && held->owner == from)
        lose(
            note.id,
            text("worker ", from, ", its owner, has dropped it already"),
            then);
      return;
    case Note::Accept:
      return unpin(from, note.number, then);
    case Note::Remove:
      return remove_fork(from, note.id, note.number, then);
  }
  throw InvalidArgument(text(
      "[rpc] expected a note on a reference, got one of kind ",
      static_cast<int>(note.note),
      "; do not speak to workers with other programs"));
}

void References::listed(ObjectId id, std::uint64_t fork, Consequences& then) {
  Held* held = find(id, fork);
  if (held == nullptr || held->stage == Stage::Listed)
    return;
  if (held->stage == Stage::Naming)
    then.settled.push_back(id);
  held->stage = Stage::Listed;
  pay(*held, then);
  drop_if_unused(id, *held, then);
}

// Those who wait may unpin theirs.
void References::pay(Held& held, Consequences& then) {
  for (const Debt& debt : held.debts)
    then.postings.push_back({debt.to, Note::Accept, ObjectId{}, debt.pin});
  held.debts.clear();
}

void References::lose(ObjectId id, const std::string& why, Consequences& then) {
  const auto found = held_.find(id);
  Held& held = found->second;
  held.loss->set(why);
  if (held.stage == Stage::Naming)
    then.settled.push_back(id);
  pay(held, then);
  shares_[held.owner].held.erase(id);
  held_.erase(found);
}

void References::unpin(WorkerId from, std::uint64_t pin, Consequences& then) {
  auto& pins = shares_[from].pins;
  const auto found = pins.find(pin);
  if (found == pins.end())
    return;
  const auto [id, fork] = found->second;
  pins.erase(found);
  if (Held* held = find(id, fork)) {
    --held->pins;
    drop_if_unused(id, *held, then);
  }
}

void References::remove_fork(
    WorkerId holder, ObjectId id, std::uint64_t fork, Consequences& then) {
  if (shares_[holder].forks.erase({id, fork}) == 0)
    return;
  Owned& owned = owned_.at(id);
  --owned.forks;
  drop_if_unused(id, owned, then);
}

void References::take_releases(Consequences& then) {
  for (const Releases::Entry& entry : releases_->take()) {
    if (entry.fork == 0) {
      const auto found = owned_.find(entry.id);
      if (found == owned_.end())
        continue;
      --found->second.handles;
      drop_if_unused(entry.id, found->second, then);
    } else if (Held* held = find(entry.id, entry.fork)) {
      --held->handles;
      drop_if_unused(entry.id, *held, then);
    }
  }
}

void References::drop_if_unused(ObjectId id, Held& held, Consequences& then) {
  if (held.handles > 0 || held.pins > 0 || held.stage != Stage::Listed)
    return;
  then.postings.push_back({held.owner, Note::Remove, id, held.fork});
  shares_[held.owner].held.erase(id);
  held_.erase(id);
}

void References::drop_if_unused(ObjectId id, Owned& owned, Consequences& then) {
  if (owned.handles > 0 || owned.forks > 0)
    return;
  then.dropped.push_back(std::move(owned.cargo));
  owned_.erase(id);
}

void References::forget(WorkerId worker, const std::string& why, Consequences& then) {
  const auto found = shares_.find(worker);
  if (found == shares_.end())
    return;
  Share share = std::move(found->second);
  shares_.erase(found);
  for (const auto& [id, fork] : share.forks) {
    Owned& owned = owned_.at(id);
    --owned.forks;
    drop_if_unused(id, owned, then);
  }
  for (const ObjectId& id : share.held)
    lose(id, why, then);
  shares_.erase(worker);  // lose() has looked there
  for (const auto& [pin, fork] : share.pins)
    if (Held* held = find(fork.first, fork.second)) {
      --held->pins;
      drop_if_unused(fork.first, *held, then);
    }
  // Nobody there waits for an answer any more.
  for (auto& [id, held] : held_)
    std::erase_if(held.debts, [&](const Debt& debt) { return debt.to == worker; });
  std::erase_if(then.postings, [&](const Posting& note) { return note.to == worker; });
}

bool References::shares(WorkerId worker) const {
  const auto found = shares_.find(worker);
  return found != shares_.end() &&
         !(found->second.forks.empty() && found->second.pins.empty() &&
           found->second.held.empty());
}

std::vector<Tie> References::left() const {
  std::vector<Tie> ties;
  for (const auto& [worker, share] : shares_) {
    for (const auto& [id, fork] : share.forks)
      ties.push_back({.id = id, .owner = me_, .holder = worker});
    for (const ObjectId& id : share.held)
      ties.push_back({.id = id, .owner = worker, .holder = me_});
  }
  return ties;
}

}  // namespace trireme::rpc
