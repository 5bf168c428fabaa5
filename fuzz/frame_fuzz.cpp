// Any bytes as frames of a session: they are refused, or end as messages of the sizes
// that they said.
#include <algorithm>
#include <cstring>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/net/checksum.h"
#include "trireme/net/frame_reader.h"
#include "trireme/net/inbox.h"

namespace {

using namespace trireme;
using namespace trireme::net;

// What arrives, without sockets: the inbox of a session with small limits.
class Arrivals : public FrameSink {
 public:
  std::span<std::byte> begin(const Frame& frame, std::string header) override {
    if (!frame.is_data())
      return {};
    const std::span<std::byte> place =
        inbox_.begin(frame, std::move(header), [](const Envelope&, std::size_t) {
          return std::span<std::byte>();
        });
    // A block may be a little larger than its message, and hide what goes beyond.
    if (frame.kind == FrameKind::Message && place.size() > frame.body)
      __builtin_trap();
    return place;
  }
  void end(const Frame& frame) override {
    if (frame.is_data())
      inbox_.end();
  }
  static constexpr Limits limits{
      .header_bytes = 64, .body_bytes = 1024, .small_bytes = 256, .small_window = 4096};

 private:
  // No cache: every body is a block of its own, with its end guarded.
  BufferPool pool_{{.max_cached_bytes = 0}};
  Inbox inbox_{limits, pool_};
};

}  // namespace

// Magic numbers and checksums are put right: no fuzzer guesses them, and a peer that
// wants to do harm computes them too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0)
    std::memcpy(bytes.data(), data, size);
  Arrivals arrivals;
  FrameReader reader(Arrivals::limits, false);
  try {
    for (std::span<std::byte> rest(bytes); rest.size() >= kFrameHead;) {
      const auto head = rest.first<kFrameHead>();
      const unsigned char fixed[3] = {'T', 'R', kProtocolVersion};
      std::memcpy(head.data(), fixed, sizeof fixed);
      head[4] = std::byte{0};  // no checks of what follows
      const std::uint32_t check = crc32c(head.first<60>());
      std::memcpy(head.data() + 60, &check, sizeof check);
      reader.feed(head, arrivals);
      rest = rest.subspan(kFrameHead);
      std::uint32_t lengths[2];
      std::memcpy(lengths, head.data() + 40, sizeof lengths);
      const std::size_t behind =
          std::min<std::size_t>(rest.size(), std::size_t{lengths[0]} + lengths[1]);
      reader.feed(rest.first(behind), arrivals);
      rest = rest.subspan(behind);
    }
  } catch (const InvalidArgument&) {
  }
  return 0;
}
