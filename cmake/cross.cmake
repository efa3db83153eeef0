# Toolchain for the other architecture, with tests in an emulator; scripts/cross.sh uses it.
#   ROTARY_CROSS_PROCESSOR   aarch64 or x86_64
#   ROTARY_CROSS_COMPILER    g++ or clang++
#   ROTARY_CROSS_ROOT        the root of that architecture's libraries, as dpkg unpacks them
# The emulator takes its options from the environment: QEMU_CPU, QEMU_LD_PREFIX.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES
     ROTARY_CROSS_PROCESSOR ROTARY_CROSS_COMPILER ROTARY_CROSS_ROOT)
set(triplet ${ROTARY_CROSS_PROCESSOR}-linux-gnu)

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${ROTARY_CROSS_PROCESSOR})
if(ROTARY_CROSS_COMPILER STREQUAL "clang++")
  # It finds the headers, the libraries and the linker of the GCC for that architecture by itself.
  set(CMAKE_C_COMPILER clang)
  set(CMAKE_CXX_COMPILER clang++)
  set(CMAKE_C_COMPILER_TARGET ${triplet})
  set(CMAKE_CXX_COMPILER_TARGET ${triplet})
  # The binary utilities of another architecture do not read these files.
  foreach(tool IN ITEMS ar nm objdump ranlib strip)
    string(TOUPPER ${tool} name)
    set(CMAKE_${name} ${triplet}-${tool})
  endforeach()
else()
  set(CMAKE_C_COMPILER ${triplet}-gcc)
  set(CMAKE_CXX_COMPILER ${triplet}-g++)
endif()

set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})
set(CMAKE_FIND_ROOT_PATH "${ROTARY_CROSS_ROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# gmp.h is in the folder of the architecture.
set(CMAKE_C_FLAGS_INIT "-isystem ${ROTARY_CROSS_ROOT}/usr/include/${triplet}")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${ROTARY_CROSS_PROCESSOR})
