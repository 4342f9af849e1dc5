# Deploys a release of dynashard: uploads its functions and its template, and makes the stack that the template describes.

terraform {
  required_version = ">= 1.9"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0, < 7.0"
    }
  }
}

variable "name" {
  type        = string
  description = "Name of the stack."
  default     = "dynashard"
  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]{0,127}$", var.name))
    error_message = "The name begins with a letter, and has up to 128 letters, digits and hyphens."
  }
}

variable "bucket" {
  type        = string
  description = "Name of a bucket in the region of the provider, for the functions and the template."
}

variable "prefix" {
  type        = string
  description = "What the keys in the bucket begin with."
  default     = "dynashard"
}

variable "parameters" {
  type        = map(string)
  description = "Parameters by name, as docs/PARAMETERS.md lists them. CloudFormation hides LogKeySecret, so each plan shows it as changed."
  default     = {}
}

variable "release" {
  type        = string
  description = "Folder of the released files, other than that of this module."
  default     = null
  validation {
    condition     = fileexists("${coalesce(var.release, "${path.module}/release")}/dynashard-template.json")
    error_message = "There is no dynashard-template.json: take the module from the archive of a release, or name a folder with a release's files."
  }
}

variable "stack_policy" {
  type        = string
  description = "Stack policy as JSON. Left out, it is the one that keeps both tables from being replaced or removed."
  default     = null
}

variable "iam_role_arn" {
  type        = string
  description = "Role by which CloudFormation makes the resources. Left out, it is whoever applies."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of the stack, which reach all resources that can have tags."
  default     = {}
}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  release  = coalesce(var.release, "${path.module}/release")
  template = jsondecode(file("${local.release}/dynashard-template.json"))

  # The module itself says where the functions lie.
  allowed = { for name, parameter in local.template.Parameters : name => parameter if !contains(["CodeBucket", "CodePrefix"], name) }
  given   = { for name, value in var.parameters : name => value if contains(keys(local.allowed), name) }

  # What CloudFormation would refuse when the plan is applied. Each parameter has a default, so none can be missing.
  problems = concat(
    [
      for name in keys(var.parameters) : "dynashard has no parameter ${name}; docs/PARAMETERS.md lists those that there are."
      if !contains(keys(local.allowed), name)
    ],
    [
      for name, value in local.given : "${name} is one of: ${join(", ", local.allowed[name].AllowedValues)}."
      if !contains([for each in try(local.allowed[name].AllowedValues, [value]) : tostring(each)], value)
    ],
    [
      for name, value in local.given : "${name} ${local.allowed[name].ConstraintDescription}."
      if can(local.allowed[name].AllowedPattern) && !can(regex(local.allowed[name].AllowedPattern, value))
    ],
    [
      for name, value in local.given : "${name} has at most ${local.allowed[name].MaxLength} characters."
      if length(value) > try(local.allowed[name].MaxLength, length(value))
    ],
    [
      for name, value in local.given :
      "${name} is a number${try(" from ${local.allowed[name].MinValue}", "")}${try(" to ${local.allowed[name].MaxValue}", "")}."
      if local.allowed[name].Type == "Number" && !try(
        tonumber(value) >= try(local.allowed[name].MinValue, tonumber(value)) &&
        tonumber(value) <= try(local.allowed[name].MaxValue, tonumber(value)), false
      )
    ],
  )

  architecture = try(var.parameters["Architecture"], local.allowed["Architecture"].Default)
  # The template names the keys of the zips.
  zips = [
    for function in values(local.template.Resources) :
    replace(replace(function.Properties.CodeUri.Key["Fn::Sub"], "$${CodePrefix}", ""), "$${Architecture}", local.architecture)
    if function.Type == "AWS::Serverless::Function"
  ]
  keys = { for key in concat(local.zips, ["dynashard-template.json"]) : basename(key) => key }
  # CloudFormation takes up another file by another key alone. A rollback finds the old files, which go after the update.
  digest = sha256(join("", [for name in keys(local.keys) : try(filesha256("${local.release}/${name}"), name)]))
  place  = "${var.prefix}/${substr(local.digest, 0, 16)}/"
  s3     = "https://s3.${data.aws_region.current.id}.${data.aws_partition.current.dns_suffix}"
}

resource "aws_s3_object" "release" {
  for_each    = local.keys
  bucket      = var.bucket
  key         = "${local.place}${each.value}"
  source      = "${local.release}/${each.key}"
  source_hash = try(filesha256("${local.release}/${each.key}"), null)

  lifecycle {
    create_before_destroy = true
    precondition {
      condition     = fileexists("${local.release}/${each.key}")
      error_message = "The release has no ${each.key}: give an Architecture that it is built for, or the folder of another release."
    }
  }
}

resource "aws_cloudformation_stack" "dynashard" {
  name         = var.name
  template_url = "${local.s3}/${var.bucket}/${local.place}dynashard-template.json"
  # SAM's transform takes the second one.
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
  parameters   = merge(var.parameters, { CodeBucket = var.bucket, CodePrefix = local.place })
  policy_body  = coalesce(var.stack_policy, file("${local.release}/dynashard-stack-policy.json"))
  iam_role_arn = var.iam_role_arn
  tags         = var.tags
  depends_on   = [aws_s3_object.release]

  # CloudFormation waits until an index is built, which takes hours where the table is large.
  timeouts {
    create = "2h"
    update = "24h"
    delete = "2h"
  }

  lifecycle {
    precondition {
      condition = length(local.problems) == 0
      # They hold no value of a parameter.
      error_message = nonsensitive(join("\n", local.problems))
    }
  }
}

output "stack_id" {
  value = aws_cloudformation_stack.dynashard.id
}

output "outputs" {
  description = "The outputs of the stack by name, such as ApiUrl and MainTableName."
  value       = aws_cloudformation_stack.dynashard.outputs
}
