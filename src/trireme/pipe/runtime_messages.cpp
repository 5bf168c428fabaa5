// What a rank sends and receives; the rest of Runtime is in runtime.cpp.
#include <algorithm>
#include <cstring>

#include "trireme/core/error.h"
#include "trireme/pipe/runtime.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {

using sched::Action;
using sched::ActionKind;
using sched::index;

namespace {

/// What came over one edge of `count`.
template <class Arrival>
Arrival& arrival(std::vector<Arrival>& edges, size_t count, size_t edge) {
  if (edges.size() < count)
    edges.resize(count);
  return edges[edge];
}

/// The weight of the loss goes back with the gradients, for auxiliary losses.
std::string weight_bytes(double weight) {
  std::string bytes(sizeof(weight), '\0');
  std::memcpy(bytes.data(), &weight, sizeof(weight));
  return bytes;
}

double read_weight(const std::string& bytes) {
  double weight = 0;
  TRIREME_ASSERT(bytes.size() == sizeof(weight));
  std::memcpy(&weight, bytes.data(), sizeof(weight));
  return weight;
}

}  // namespace

Stamp Runtime::stamp(int microbatch) const {
  return {
      .step = data_->step,
      .call = data_->call,
      .microbatches = program_->schedule.microbatches,
      .microbatch = microbatch};
}

/// A receive does not wait: it says what comes next on its channels.
void Runtime::expect(const Action& receive) {
  for (const sched::ChannelMap::Use& use : program_->channels.uses(receive))
    expected_[index(use.channel)].push_back(
        {receive.stage(), receive.microbatch(), use.other});
}

void Runtime::await_inputs(const Action& half) {
  if (half.kind() == ActionKind::Forward)
    await(ActionKind::ReceiveForward, half.stage(), half.microbatch());
  else if (sched::gives_input_grad(half.kind()))
    await(ActionKind::ReceiveBackward, half.stage(), half.microbatch());
}

void Runtime::await(ActionKind kind, int stage, int microbatch) {
  const Action receive(kind, stage, microbatch);
  const auto& uses = program_->channels.uses(receive);
  if (uses.empty())
    return;
  const int64_t start = now_ns();
  awaited_ = receive;
  const bool forward = kind == ActionKind::ReceiveForward;
  for (const sched::ChannelMap::Use& use : uses) {
    Held& here = held(stage, microbatch);
    const size_t edge =
        forward ? links_.in_edge(stage, use.other) : links_.out_edge(stage, use.other);
    auto& edges = forward ? here.inputs : here.output_gradients;
    const size_t count = forward ? links_.in(stage).size() : links_.out(stage).size();
    awaited_from_ = use.other;
    while (!arrival(edges, count, edge).there)
      receive_next(index(use.channel));
  }
  awaited_.reset();
  note(receive, start);
}

/// Messages of a channel come in the order in which they are expected, which need not
/// be the order in which they are used.
void Runtime::receive_next(size_t channel) {
  auto& queue = expected_[channel];
  TRIREME_ASSERT(!queue.empty());
  const Expected next = queue.front();
  comm::Message message = channels_[channel]->receive();
  queue.pop_front();
  Held& here = held(next.stage, next.microbatch);
  const bool forward = program_->channels.channels()[channel].forward;
  const Stamp got = Stamp::from_word(message.header.word);
  channels_[channel]->check(got, stamp(next.microbatch));
  if (forward)
    here.samples = SampleRange::from_bytes(message.header.bytes);
  else
    here.loss_weight = read_weight(message.header.bytes);
  Held::Arrival& place = forward ? arrival(
                                       here.inputs,
                                       links_.in(next.stage).size(),
                                       links_.in_edge(next.stage, next.other))
                                 : arrival(
                                       here.output_gradients,
                                       links_.out(next.stage).size(),
                                       links_.out_edge(next.stage, next.other));
  place = {true, std::move(message.tensors)};
}

void Runtime::send(const Action& action) {
  const int stage = action.stage();
  const int microbatch = action.microbatch();
  Held& here = held(stage, microbatch);
  const bool forward = action.kind() == ActionKind::SendForward;
  for (const sched::ChannelMap::Use& use : program_->channels.uses(action)) {
    comm::Message message{.header = {.word = stamp(microbatch).to_word()}};
    if (forward) {
      message.header.bytes = here.samples.to_bytes();
      message.tensors = here.outputs[links_.out_edge(stage, use.other)];
    } else {
      message.header.bytes = weight_bytes(here.loss_weight);
      message.tensors =
          gradients_for(stage, microbatch, links_.in_edge(stage, use.other));
    }
    timeline_.message_bytes = std::max(timeline_.message_bytes, bytes_of(message));
    channels_[index(use.channel)]->send(message);
  }
  // What has left is needed no more; the gradient edge is enough.
  if (forward)
    here.outputs.clear();
  else
    here.input_gradients.clear();
}

}  // namespace trireme::pipe
