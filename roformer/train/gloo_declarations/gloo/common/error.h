// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#pragma once
