// main() of the test programs that use libtorch.
#include <ATen/Parallel.h>

#include "trireme/testing/run_tests.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // Ranks are processes made by fork(), which must not inherit a pool of threads.
  at::set_num_threads(1);
  return trireme::testing::run_tests();
}
