// main() of the test programs that do without libtorch.
#include "trireme/testing/run_tests.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return trireme::testing::run_tests();
}
