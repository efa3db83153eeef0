// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/onednn.h"

#if defined(__aarch64__) && defined(__linux__)
#include <ATen/Context.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

void rotary::roformer::disable_onednn_without_bf16() {
  if ((getauxval(AT_HWCAP2) & HWCAP2_BF16) == 0) at::globalContext().setUserEnabledMkldnn(false);
}

#else

void rotary::roformer::disable_onednn_without_bf16() {}

#endif
