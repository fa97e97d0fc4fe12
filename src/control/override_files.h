/* Writes the files of a load command to a model's directory, in a temporary repository below the
 * system's temporary directory. It exists while the model is loaded. */
#ifndef TT_CONTROL_OVERRIDE_FILES_H
#define TT_CONTROL_OVERRIDE_FILES_H

#include "serve/model_command.h"

/* Writes the command's files. `*out_repository` is the path of the repository; the caller passes it
 * to tt_override_files_remove. Errors: INVALID (a path that is not <version>/<name>), IO,
 * NO_MEMORY; then no files are left. */
TT_MUST_CHECK enum tt_err tt_override_files_write(const struct tt_model_command *command,
                                                  char **out_repository, struct tt_error *why);
void tt_override_files_remove(char *take_repository); /* NULL-safe */

#endif
