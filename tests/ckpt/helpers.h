// What several tests of ckpt need.
#pragma once
#include <cstring>
#include <functional>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::ckpt {

/// The message with which `call` is refused.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("[ckpt] ") || message.starts_with("[core] "))
        << message;  // [core]: a file that cannot be read or written
    return message;
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

/// Fails the test unless the message has the part.
inline void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos)
      << "expected: " << part << "\ngot: " << message;
}

/// Bit by bit, with dtype and sizes.
inline void expect_same(const at::Tensor& got, const at::Tensor& wanted) {
  EXPECT_EQ(got.scalar_type(), wanted.scalar_type());
  EXPECT_EQ(got.sizes(), wanted.sizes());
  const at::Tensor a = got.contiguous(), b = wanted.contiguous();
  ASSERT_EQ(a.nbytes(), b.nbytes());
  const bool same =
      a.nbytes() == 0 ||
      std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
  EXPECT_TRUE(same) << got << "\n" << wanted;
}

}  // namespace trireme::ckpt
