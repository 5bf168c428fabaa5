#include "trireme/launch/member.h"

#include "trireme/core/error.h"
#include "trireme/launch/leader.h"

namespace trireme::launch {
namespace {

// How long one try takes, so that a launcher that has to end need not wait for long.
constexpr auto kDialTry = std::chrono::milliseconds(2000);

}  // namespace

Member::Member(MemberOptions options)
    : options_(std::move(options)),
      node_(
          {.name = node_name(options_.card),
           .job = kLaunchJob,
           .security = options_.security,
           .heartbeat = kNodeHeartbeat},
          *this) {}

Member::~Member() {
  leaving_ = true;
  if (dialler_.joinable())
    dialler_.join();
  node_.close();
}

void Member::received(const net::Peer& peer, net::InMessage message) {
  const Word word = decode_word(message.envelope.header);
  if (word.kind == Word::Kind::Here)
    return peer.send(node_message(word));
  if (word.kind == Word::Kind::Over || word.kind == Word::Kind::Stopping)
    ending_ = true;
  mailbox_.put({.word = word, .peer = {}});
}

void Member::lost(const net::Peer&, net::Ending ending, const std::string& why) {
  if (!ending_ && !leaving_)
    give_up(text(
        "expected the launcher of node 0 at ",
        options_.leader.text(),
        " to go on, got none: ",
        ending == net::Ending::Left ? "it has ended" : why));
}

void Member::give_up(const std::string& why) {
  mailbox_.put(
      {.word = {.kind = Word::Kind::Lost, .number = 1, .text = why}, .peer = {}});
}

void Member::dial() {
  const Deadline deadline = Deadline::after(options_.patience);
  while (!leaving_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    try {
      const net::Peer peer = node_.connect(
          kLeaderName, options_.leader, Deadline::after(std::min(left, kDialTry)));
      return mailbox_.put({.word = {}, .peer = peer});
    } catch (const TimeoutError& error) {
      if (deadline.expired())
        return give_up(text(
            "expected node 0 to listen at ",
            options_.leader.text(),
            " within ",
            std::chrono::duration<double>(options_.patience).count(),
            " s, got no answer (",
            error.what(),
            "); start trireme run there with --node-rank 0"));
    } catch (const std::exception& error) {
      return give_up(text(
          "expected to join the job at ",
          options_.leader.text(),
          ", got a refusal: ",
          error.what()));
    }
  }
}

std::vector<Word> Member::take() {
  std::vector<Word> words;
  for (Event& event : mailbox_.take()) {
    if (!event.peer) {
      words.push_back(std::move(event.word));
      continue;
    }
    leader_ = event.peer;
    Word join{.kind = Word::Kind::Join};
    join.card = options_.card;
    send(join);
  }
  return words;
}

void Member::send(const Word& word) const {
  if (leader_)
    leader_.send(node_message(word));
}

void Member::told(const Word& word) {
  if (!dialler_.joinable()) {
    if (word.kind == Word::Kind::Idle)
      dialler_ = std::thread([this] { dial(); });
    return;
  }
  if (word.kind == Word::Kind::Stopping)
    ending_ = true;
  send(word);
}

void Member::leave(const std::string& why) {
  leaving_ = true;
  send({.kind = Word::Kind::Lost, .text = why});
}

}  // namespace trireme::launch
