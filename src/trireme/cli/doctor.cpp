#include "trireme/cli/doctor.h"
