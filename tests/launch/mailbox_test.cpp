// Events of other threads reach the one that polls.
#include "trireme/launch/mailbox.h"

#include <poll.h>
#include <thread>

#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

bool readable(int fd, int milliseconds) {
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, milliseconds) == 1;
}

TEST(MailboxRanks, WakesWhoPollsAndKeepsTheOrder) {
  Mailbox<int> mailbox;
  EXPECT_FALSE(readable(mailbox.fd(), 0));
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i)
      mailbox.put(i);
  });
  std::vector<int> all;
  while (all.size() < 1000 && readable(mailbox.fd(), 20'000))
    for (const int event : mailbox.take())
      all.push_back(event);
  other.join();
  ASSERT_EQ(all.size(), 1000u);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(all[static_cast<size_t>(i)], i);
  EXPECT_TRUE(mailbox.take().empty());
  EXPECT_FALSE(readable(mailbox.fd(), 0)) << "what was taken rings no more";
}

}  // namespace
}  // namespace trireme::launch
