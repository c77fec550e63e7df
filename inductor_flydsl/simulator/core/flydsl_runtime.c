/* The runtime library that FlyDSL's compiled launchers call, with a simulator behind it: a module is its assembly text,
   and a launch goes to one callback. simulator/flydsl.py sets it; the launcher itself returns nothing. */
#include <stdlib.h>

#include "core.h"

typedef struct {
    const char *assembly; /* the launcher's own memory, which outlives the module */
    size_t bytes;
} Module;

typedef struct Function {
    const Module *module;
    struct Function *next;
    char name[];
} Function;

typedef void (*LaunchCallback)(const char *assembly, u64 bytes, const char *kernel, const i64 *grid, const i64 *block,
                               i32 dynamic_lds, void **params, u64 param_count);

static LaunchCallback callback;
/* Kernels are asked for by name on every launch. Python's own lock is held then: FlyDSL calls with it. */
static Function *functions;

void gfx950_set_launch_callback(LaunchCallback wanted) { callback = wanted; }

static void *new_module(const void *image, size_t bytes) {
    Module *module = calloc(1, sizeof *module);
    if (!module) abort();
    module->assembly = image;
    module->bytes = bytes;
    return module;
}

void *mgpuModuleLoad(const void *image, size_t bytes) { return new_module(image, bytes); }

/* The size includes the text's trailing NUL. */
void *mgpuModuleLoadJIT(const void *text, int level, size_t bytes) {
    (void)level;
    return new_module(text, bytes ? bytes - 1 : 0);
}

void mgpuModuleUnload(void *module) {
    for (Function **at = &functions; *at;) {
        Function *function = *at;
        if (function->module == module) {
            *at = function->next;
            free(function);
        } else {
            at = &function->next;
        }
    }
    free(module);
}

void *mgpuModuleGetFunction(void *module, const char *name) {
    for (Function *function = functions; function; function = function->next)
        if (function->module == module && !strcmp(function->name, name)) return function;
    Function *function = calloc(1, sizeof *function + strlen(name) + 1);
    if (!function) abort();
    function->module = module;
    function->next = functions;
    strcpy(function->name, name);
    return functions = function;
}

void mgpuLaunchKernel(void *kernel, intptr_t gx, intptr_t gy, intptr_t gz, intptr_t bx, intptr_t by, intptr_t bz,
                      i32 dynamic_lds, void *stream, void **params, void **extra, size_t param_count) {
    (void)stream, (void)extra;
    const Function *function = kernel;
    const i64 grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    if (callback)
        callback(function->module->assembly, function->module->bytes, function->name, grid, block, dynamic_lds, params,
                 param_count);
}
