/* A model's directory made of what a load command brings, in a repository of its own below the
 * system's temporary directory; for as long as the model is being loaded. */
#ifndef TT_CONTROL_OVERRIDE_FILES_H
#define TT_CONTROL_OVERRIDE_FILES_H

#include "serve/model_command.h"

/* Writes the command's files. `*out_repository` is the path of the repository, to be given to
 * tt_override_files_remove. INVALID (a path that is not <version>/<name>), IO, NO_MEMORY; nothing
 * is left behind then. */
TT_MUST_CHECK enum tt_err tt_override_files_write(const struct tt_model_command *command,
                                                  char **out_repository, struct tt_error *why);
void tt_override_files_remove(char *take_repository); /* NULL-safe */

#endif
