#include "trireme/launch/rounds.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"
#include "trireme/launch/job.h"

namespace trireme::launch {
namespace {

constexpr const char* kOver =
    "expected a job that goes on, got one that is over; start it again";
constexpr const char* kRuns =
    "expected a job whose ranks have not started, got one that runs; wait until it "
    "starts again, or give all nodes bounds, as --nnodes 1:2";

std::string bounds_text(int least, int most) {
  return least == most ? text(least) : text(least, ":", most);
}

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string node_text(int node, const std::string& host) {
  return text("node ", node, " (", escaped(host), ")");
}

Rounds::Rounds(Plan plan, Time now)
    : plan_(std::move(plan)), until_(now + plan_.join), wake_(now) {}

// -- who takes part

// Why a node cannot take part; empty if it can.
std::string Rounds::obstacle(const NodeCard& card) const {
  if (phase_ == Phase::Over || phase_ == Phase::Stopping)
    return kOver;
  if (card.least != plan_.least || card.most != plan_.most)
    return text(
        "expected --nnodes ",
        bounds_text(plan_.least, plan_.most),
        " as on node 0, got ",
        bounds_text(card.least, card.most),
        "; give all nodes the same");
  if (!card.run_id.empty() && card.run_id != plan_.run_id)
    return text(
        "expected a node of the job ",
        in_quotes(plan_.run_id),
        ", got one of ",
        in_quotes(card.run_id),
        "; give all nodes the same --rdzv-id");
  if (card.wish >= plan_.most)
    return text(
        "expected --node-rank below ",
        plan_.most,
        ", got ",
        card.wish,
        "; nodes count from 0");
  return {};
}

void Rounds::join(int id, const NodeCard& card, bool leads) {
  NodeCard known = card;
  if (leads)
    known.wish = 0;
  if (over_ && !over_->text.empty())
    return tell(id, *over_);  // it never began, and this is why
  if (const std::string why = obstacle(known); !why.empty())
    return refuse(id, why);
  // Who is in its way may be dead already, and this one the replacement.
  if (Contender contender = contend(known); !contender.asked.empty()) {
    for (const int other : contender.asked)
      tell(other, {.kind = Word::Kind::Here});
    contenders_[id] = std::move(contender);
    return;
  }
  if (phase_ == Phase::Running && plan_.least == plan_.most && !restarts())
    return refuse(id, trouble_ ? kOver : kRuns);
  members_[id] = {.card = std::move(known), .leads = leads, .order = joined_++};
}

void Rounds::refuse(int id, const std::string& why) {
  tell(id, {.kind = Word::Kind::Over, .number = 2, .text = why});
}

// Those in the way of a node: who has its number, or all where there is no place left.
Rounds::Contender Rounds::contend(const NodeCard& card) const {
  Contender contender{.card = card};
  for (const auto& [id, member] : members_)
    if (card.wish >= 0 && member.card.wish == card.wish) {
      contender.asked = {id};
      contender.refusal = text(
          "expected one node of rank ",
          card.wish,
          ", got a second on ",
          escaped(card.host),
          " beside that on ",
          escaped(member.card.host),
          "; give each its own --node-rank");
      return contender;
    }
  if (members_.size() < static_cast<size_t>(plan_.most))
    return contender;
  for (const auto& [id, member] : members_)
    contender.asked.insert(id);
  contender.refusal = text(
      "expected ", plan_.most, " nodes, got one more; all are there, so end one first");
  return contender;
}

// A member is still there: whoever all are in the way of is refused.
void Rounds::answered(int member) {
  for (auto one = contenders_.begin(); one != contenders_.end();) {
    const auto contender = one++;
    if (contender->second.asked.erase(member) == 0 || !contender->second.asked.empty())
      continue;
    refuse(contender->first, contender->second.refusal);
    contenders_.erase(contender);
  }
}

// A member is gone: perhaps there is a place now.
void Rounds::let_in(int member) {
  std::map<int, NodeCard> waiting;
  for (const auto& [id, contender] : contenders_)
    if (contender.asked.contains(member))
      waiting[id] = contender.card;
  for (const auto& [id, card] : waiting) {
    contenders_.erase(id);
    join(id, card, false);
  }
}

// Who has a wish gets its place, the others fill the gaps in the order in which they
// came; then they move up.
std::vector<int> Rounds::in_order() const {
  std::map<int, int> by_place;
  for (const auto& [id, member] : members_)
    if (member.card.wish >= 0)
      by_place[member.card.wish] = id;
  std::vector<std::pair<int, int>> others;
  for (const auto& [id, member] : members_)
    if (member.card.wish < 0)
      others.emplace_back(member.order, id);
  std::sort(others.begin(), others.end());
  int place = 0;
  for (const auto& [order, id] : others) {
    while (by_place.contains(place))
      ++place;
    by_place[place] = id;
  }
  std::vector<int> ids;
  for (const auto& [at, id] : by_place)
    ids.push_back(id);
  return ids;
}

std::string Rounds::missing() const {
  const bool fixed = plan_.least == plan_.most;
  std::string without;
  if (fixed && std::all_of(members_.begin(), members_.end(), [](const auto& one) {
        return one.second.card.wish >= 0;
      })) {
    std::vector<std::string> names;
    for (int node = 0; node < plan_.most; ++node)
      if (std::none_of(members_.begin(), members_.end(), [node](const auto& one) {
            return one.second.card.wish == node;
          }))
        names.push_back(text("node ", node));
    without = text(", without ", list_names(names));
  }
  return text(
      "expected ",
      fixed ? "" : "at least ",
      plan_.least,
      " nodes within ",
      seconds_of(plan_.join),
      " s, got ",
      members_.size(),
      without,
      "; start trireme run on the others, and see that they can reach this one");
}

// -- the course

bool Rounds::enough(Time now) {
  const size_t there = members_.size();
  if (there >= static_cast<size_t>(plan_.most) ||
      (last_size_ > 0 && there >= last_size_))
    return true;
  if (there < static_cast<size_t>(plan_.least)) {
    call_.reset();
    wake_ = until_;
    return false;
  }
  if (!call_)
    call_ = now + plan_.last_call;
  wake_ = call_;
  return now >= *call_;
}

std::vector<Letter> Rounds::next(Time now) {
  wake_.reset();
  if (phase_ == Phase::Running &&
      std::all_of(members_.begin(), members_.end(), [](const auto& one) {
        return one.second.idle || !one.second.in_round;
      }))
    conclude(now);
  if (phase_ == Phase::Gathering) {
    if (enough(now))
      start();
    else if (!lacking_.empty())
      finish(1, lacking_);
    else if (now >= until_ && !call_)
      finish(1, missing());
  }
  return std::exchange(letters_, {});
}

void Rounds::start() {
  wake_.reset();
  call_.reset();
  trouble_.reset();
  obeyed_ = false;
  phase_ = Phase::Running;
  last_size_ = members_.size();
  NodePlace place{
      .nodes = static_cast<int>(members_.size()),
      .ranks_in_all = 0,
      .attempt = attempt_,
      .max_restarts = plan_.max_restarts,
      .run_id = plan_.run_id};
  for (const auto& [id, member] : members_)
    place.ranks_in_all += member.card.ranks;
  for (const int id : in_order()) {
    Member& member = members_.at(id);
    member.in_round = true;
    member.idle = false;
    member.node = place.node;
    tell(id, {.kind = Word::Kind::Go, .place = place});
    ++place.node;
    place.first_rank += member.card.ranks;
  }
}

// Whether another round follows this one.
bool Rounds::restarts() const {
  return trouble_ && !obeyed_ && attempt_ < plan_.max_restarts;
}

void Rounds::conclude(Time now) {
  for (auto& [id, member] : members_)
    member.in_round = false;
  if (!restarts())
    return finish(trouble_.value_or(obeyed_ ? kResumable : 0), "");
  ++attempt_;
  phase_ = Phase::Gathering;
  until_ = now + plan_.join;
}

void Rounds::finish(int code, const std::string& why) {
  wake_.reset();
  phase_ = Phase::Over;
  over_ = {.kind = Word::Kind::Over, .number = code, .text = why};
  for (const auto& [id, member] : members_) {
    Word over = *over_;
    if (member.node < 0 && why.empty())
      over.text = "the job is over; this node only waited for its next start";
    tell(id, over);
  }
  for (const auto& [id, contender] : std::exchange(contenders_, {}))
    join(id, contender.card, false);  // to be told why not
}

void Rounds::cannot_gather(const std::string& why) {
  if (lacking_.empty())
    lacking_ = why;
}

// -- what the nodes say

void Rounds::tell_round(int but, const Word& word) {
  for (const auto& [id, member] : members_)
    if (id != but && member.in_round)
      tell(id, word);
}

void Rounds::hear(int id, const Word& word) {
  const auto found = members_.find(id);
  if (found == members_.end() || phase_ == Phase::Over)
    return;
  Member& member = found->second;
  if (word.kind == Word::Kind::Stopping)
    return stop(id, word);
  if (word.kind == Word::Kind::Here)
    return answered(id);
  if (!member.in_round)
    return;
  switch (word.kind) {
    case Word::Kind::Idle:
      member.idle = true;
      break;
    case Word::Kind::Failed:
      // The first decides: the others are rather its consequence.
      if (!trouble_) {
        trouble_ = word.failure.ending.shell_code();
        tell_round(id, word);
      }
      break;
    case Word::Kind::Obeyed:
      if (!std::exchange(obeyed_, true))
        tell_round(id, word);
      break;
    case Word::Kind::Passed:
      tell_round(id, word);
      break;
    default:
      break;
  }
}

void Rounds::stop(int id, const Word& word) {
  const Member& member = members_.at(id);
  if (phase_ == Phase::Running && !member.in_round) {
    members_.erase(id);  // it only waited for the next round
    return let_in(id);
  }
  const std::string who = member.node >= 0
                              ? node_text(member.node, member.card.host)
                              : text("the node on ", escaped(member.card.host));
  phase_ = Phase::Stopping;
  for (const auto& [other, there] : members_)
    if (other != id)
      tell(
          other,
          {.kind = Word::Kind::Stopping,
           .number = word.number,
           .text = text(who, " was asked to stop with ", signal_name(word.number))});
}

void Rounds::gone(int id, const std::string& why) {
  contenders_.erase(id);
  const auto found = members_.find(id);
  if (found == members_.end())
    return;
  const Member member = std::move(found->second);
  members_.erase(found);
  if (phase_ == Phase::Running && member.in_round && !member.idle && !trouble_) {
    trouble_ = 1;
    tell_round(
        id,
        {.kind = Word::Kind::Lost,
         .text = text(node_text(member.node, member.card.host), " is gone: ", why)});
  }
  let_in(id);
}

}  // namespace trireme::launch
