#include "trireme/comm/shared/reference_ports.h"

namespace trireme::comm {

ReferenceSender::ReferenceSender(ChannelEnd end, const ChannelOptions& options)
    : RingSender(std::move(end), options),
      messages_(std::make_shared<std::vector<Message>>(ring().slots)) {}

bool ReferenceSender::store(
    const Message& message, const MessageLayout& layout, uint64_t& payload) {
  // References are given back in the order in which they were received.
  const uint32_t freed = ring().freed.value.load(std::memory_order_acquire);
  for (; freed_seen_ != freed; ++freed_seen_) {
    bytes_out_ -= out_.front();
    out_.pop_front();
  }
  if (!out_.empty() && bytes_out_ + layout.total_bytes > options().capacity_bytes)
    return false;
  Message copy{.tensors = {}, .header = message.header};
  copy.tensors.reserve(message.tensors.size());
  for (const at::Tensor& tensor : message.tensors)
    copy.tensors.push_back(
        tensor.defined() ? tensor.detach().set_requires_grad(tensor.requires_grad())
                         : tensor);
  out_.push_back(layout.total_bytes);
  // Whole, and past everything that throws: a slot holds nothing or a message.
  Message& slot = (*messages_)[next_++ % messages_->size()];
  slot = std::move(copy);
  bytes_out_ += layout.total_bytes;
  payload = world().memory().offset_of(&slot);
  return true;
}

std::function<void()> ReferenceSender::release_all() {
  return [keep = messages_] {};
}

Message ReferenceReceiver::load(const RingControl::Slot& slot) {
  Message message = std::exchange(*world().memory().as<Message>(slot.payload), {});
  ring().freed.add_one();  // take() rings for both
  return message;
}

}  // namespace trireme::comm
