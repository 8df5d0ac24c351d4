# `cmake --install` for C++ users: headers, the archive and a package for find_package(hjcdik).
# The Python wheel takes the component `python` only.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hjcdik)

install(TARGETS hjcdik EXPORT hjcdikTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(EXPORT hjcdikTargets NAMESPACE hjcdik:: DESTINATION ${package_dir} COMPONENT development)

configure_package_config_file(cmake/hjcdikConfig.cmake.in hjcdikConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(hjcdikConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hjcdikConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/hjcdikConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/hjcdik COMPONENT development)
