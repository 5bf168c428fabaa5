#include "trireme/launch/company.h"

#include <iostream>
#include <sys/socket.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/machine.h"
#include "trireme/launch/variables.h"
#include "trireme/net/rendezvous.h"

namespace trireme::launch {
namespace {

// How long the leader may take to hear what its own node said last.
constexpr std::chrono::seconds kLastWords{2};

// Whether this launcher is to lead: node 0 is, and without a number, the first one at
// the address where they meet.
bool may_lead(const Options& options) {
  if (options.nodes->rank > 0)
    return false;
  const net::Address where = meeting_address(options);
  if (is_own_address(where))
    return true;
  if (options.nodes->rank == 0)
    throw InvalidArgument(text(
        "[launch] expected node 0 where the nodes meet, got this machine, of which ",
        in_quotes(where.host),
        " is no address; give --master-addr or --rdzv-endpoint the name by which the "
        "others reach it, or another --node-rank"));
  return false;
}

// Nodes of other machines would knock in vain. Without protection that is meant so.
void warn_of_loopback(const CompanyPlan& plan, const net::Address& listens) {
  if (!net::is_loopback_name(listens.host) || !plan.security.encrypted())
    return;
  const bool alone = plan.options.nodes->remotes.empty();
  std::cerr << "[launch] node 0 listens at " << listens.text()
            << ", which only this machine can reach; if the job has nodes on others, "
            << (alone ? "give all of them --master-addr"
                      : "begin --hosts with the name by which they reach this one")
            << std::endl;
}

std::unique_ptr<Leader> lead(const CompanyPlan& plan, const std::string& token) {
  const int rank = plan.options.nodes->rank;
  if (!may_lead(plan.options))
    return nullptr;
  try {
    auto leader = std::make_unique<Leader>(plan.options, plan.security, token);
    warn_of_loopback(plan, leader->address());
    return leader;
  } catch (const InvalidArgument&) {
    if (rank == 0)
      throw;
    return nullptr;  // another launcher of this machine listens there
  }
}

}  // namespace

bool is_own_address(const net::Address& address) {
  for (net::Endpoint there : net::resolve(net::Address::tcp(address.host, 0))) {
    const FileDescriptor socket(
        ::socket(there.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(
            socket.get(),
            reinterpret_cast<const sockaddr*>(&there.storage),
            there.length) == 0)
      return true;
  }
  return false;
}

Company::Company(const CompanyPlan& plan, const ProcessState& state) {
  const Nodes& nodes = *plan.options.nodes;
  // The first, because it forks.
  if (!nodes.remotes.empty())
    remotes_.emplace(
        nodes.remotes,
        nodes.shell,
        variable_block(shared_variables(Environment::of_process(), plan.job_key)),
        state);
  const std::string token = fresh_run_id();
  leader_ = lead(plan, token);
  member_ = std::make_unique<Member>(MemberOptions{
      .card =
          {.wish = leader_ ? 0 : nodes.rank,
           .ranks = plan.options.ranks,
           .least = nodes.least,
           .most = nodes.most,
           .host = host_name(),
           .run_id = leader_ ? "" : plan.wanted_run_id,
           .token = leader_ ? token : ""},
      .leader = leader_ ? net::own_address(leader_->address())
                        : meeting_address(plan.options),
      .security = plan.security,
      .patience = nodes.join});
}

Company::~Company() {
  say_last_words();
}

// What the member has said last, as that somebody asks to stop, is still to be told.
void Company::say_last_words() {
  member_.reset();
  if (leader_)
    leader_->finish(Deadline::after(kLastWords));
}

void Company::add_waits(std::vector<pollfd>& waits) const {
  const auto add = [&waits](int fd) {
    waits.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  };
  add(member_->fd());
  if (leader_)
    add(leader_->fd());
  if (remotes_)
    for (const int fd : remotes_->fds())
      add(fd);
}

std::optional<Rounds::Time> Company::wake() const {
  return leader_ ? leader_->wake() : std::nullopt;
}

void Company::attend(int keeper) {
  if (remotes_)
    if (const std::string trouble = remotes_->attend(); !trouble.empty())
      leader_->cannot_gather(trouble);
  if (leader_)
    leader_->attend();
  for (const Word& word : member_->take()) {
    const std::string packet = encode(word);
    // A keeper that is gone is noticed by who waits for it.
    (void)::send(keeper, packet.data(), packet.size(), MSG_NOSIGNAL);
  }
}

void Company::told(const Word& word) {
  member_->told(word);
}

void Company::leave(const std::string& why) {
  member_->leave(why);
  if (leader_)
    leader_->attend();
}

void Company::finish(std::chrono::milliseconds limit) {
  say_last_words();  // by which the others know that they are to end
  if (remotes_)
    remotes_->finish(Deadline::after(limit));
}

}  // namespace trireme::launch
