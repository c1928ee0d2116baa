__device__ __forceinline__ float fw_add_f32_of_1024(float x, void* sums, int lane) {
    x = (x + fw_from_lane(x, 16));
    x = (x + fw_from_lane(x, 8));
    x = (x + fw_from_lane(x, 4));
    x = (x + fw_from_lane(x, 2));
    x = (x + fw_from_lane(x, 1));
    float* parts = (float*)sums;
    __syncthreads();  // for threads that still read the earlier values
    if (lane % 32 == 0) parts[lane / 32] = x;
    __syncthreads();
    x = parts[lane % 32];
    x = (x + fw_from_lane(x, 16));
    x = (x + fw_from_lane(x, 8));
    x = (x + fw_from_lane(x, 4));
    x = (x + fw_from_lane(x, 2));
    x = (x + fw_from_lane(x, 1));
    return x;
}
__device__ __forceinline__ float fw_add_f32_of_32(float x) {
    x = (x + fw_from_lane(x, 16));
    x = (x + fw_from_lane(x, 8));
    x = (x + fw_from_lane(x, 4));
    x = (x + fw_from_lane(x, 2));
    x = (x + fw_from_lane(x, 1));
    return x;
}
extern "C" __global__ void __launch_bounds__(1024, 1)
k0_sum(const float* __restrict__ x0, float* k0_sum_part0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    __shared__ __align__(16) unsigned char sums[256];
    float r0_1 = 0.0f;
    const int v2 = (task * 8192);
    float part3 = -0.0f;
    #pragma unroll
    for (int iteration5 = 0; iteration5 < 8; ++iteration5) {
        const int k_4 = v2 + lane + iteration5 * 1024;
        if (k_4 < min((v2 + 8192), 99999)) {
            const float v6 = x0[k_4];
            part3 = (part3 + v6);
        }
    }
    r0_1 = (r0_1 + fw_add_f32_of_1024(part3, sums, lane));
    if (lane == 0) k0_sum_part0[task] = r0_1;
}
extern "C" __global__ void __launch_bounds__(32, 1)
k1_sum_total(const float* __restrict__ k0_sum_part0, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    float r0_1 = 0.0f;
    float part2 = -0.0f;
    {
        const int p_3 = lane;
        if (p_3 < 13) {
            const float v4 = k0_sum_part0[((task * 13) + p_3)];
            part2 = (part2 + v4);
        }
    }
    r0_1 = (r0_1 + fw_add_f32_of_32(part2));
    if (lane == 0) b0[0] = r0_1;
}
