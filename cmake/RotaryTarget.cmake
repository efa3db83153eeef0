# rotary_target_defaults(<target> [QUICK_TO_BUILD]): the flags of every target of ours, and of no
# other. QUICK_TO_BUILD: whose own speed does not matter, such as tests.
function(rotary_target_defaults target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "QUICK_TO_BUILD" "" "")
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    return()
  endif()

  # Products and sums are fused only where the code says std::fma: the same bits on every machine.
  target_compile_options(${target} PRIVATE -ffp-contract=off)

  if(arg_QUICK_TO_BUILD)
    target_compile_options(${target} PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  endif()

  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
  endif()
  if(ROTARY_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
    # An error is what is wrong with the source. These come from GCC's optimiser, differ from version
    # to version and blame the insides of std::string, std::vector and std::sort (its bugs 105651,
    # 107986). The sanitizers look for the real ones.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      foreach(warning IN ITEMS array-bounds dangling-pointer free-nonheap-object maybe-uninitialized
              nonnull restrict stringop-overflow stringop-overread use-after-free)
        target_compile_options(${target} PRIVATE -Wno-error=${warning})
      endforeach()
    endif()
  endif()

  if(ROTARY_SANITIZE)
    set(flags -fsanitize=${ROTARY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PRIVATE ${flags})
    # A C program around our C++ needs the C++ part of their run time.
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
  if(ROTARY_BUILD_FUZZERS AND NOT arg_QUICK_TO_BUILD)  # what fuzz targets run
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# rotary_compile_together(<target>): with ROTARY_UNITY_BUILD its files are compiled eight at once, for
# a target whose headers cost a file many times what its own lines do.
function(rotary_compile_together target)
  if(ROTARY_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# rotary_torch_defaults(<target> <header> ...): more flags for a target that includes PyTorch's
# headers, which are precompiled where its files are not compiled together.
function(rotary_torch_defaults target)
  # Sizes are int64_t for PyTorch and size_t for containers, and its headers hide names.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-Wno-shadow -Wno-pedantic>)
  rotary_compile_together(${target})
  if(NOT ROTARY_UNITY_BUILD)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
