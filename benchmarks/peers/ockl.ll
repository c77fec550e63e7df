; The one function of ROCm's device library that grouped kernels call: workgroups of the grid in a dimension, which are
; the first three dwords of the implicit arguments (LLVM AMDGPUUsage, code object v5: hidden_block_count_x, _y, _z).
target triple = "amdgcn-amd-amdhsa"

declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()

define i64 @__ockl_get_num_groups(i32 %dim) {
  %implicit = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %index = zext i32 %dim to i64
  %address = getelementptr i32, ptr addrspace(4) %implicit, i64 %index
  %count = load i32, ptr addrspace(4) %address
  %wide = zext i32 %count to i64
  ret i64 %wide
}
