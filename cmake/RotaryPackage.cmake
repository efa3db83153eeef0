# Packages by CPack: `cpack -G DEB` in the build folder, or `make deb`, packs the components library and
# command. roformer is not packed: it runs with the PyTorch of the machine that it was built on.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_PACKAGE_NAME rotary)
set(CPACK_PACKAGE_VENDOR "The rotary authors")
set(CPACK_PACKAGE_CONTACT "The rotary authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)

set(CPACK_COMPONENTS_ALL library)
if(ROTARY_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL command)
endif()
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # packages of the shared libraries that it needs
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS libhwy-dev)  # to link the static library in C++
include(CPack)
