# Installs by a formula, and runs its test, where there is no Homebrew: the part of its language that ours speaks.
#
#     ruby infra/formula.rb FORMULA ARCHIVES PREFIX
#
# What the formula downloads is taken from the folder ARCHIVES, by the last part of its URL.

require "digest"
require "fileutils"
require "open3"
require "pathname"
require "rbconfig"
require "tmpdir"

# Like Homebrew's `prefix`, which takes what is to lie in it.
class Pathname
  def install(*sources)
    mkpath
    FileUtils.cp_r(sources.flatten, self)
  end
end

class Formula
  class << self
    attr_reader :only

    def inherited(formula)
      super
      @only = formula
    end

    def told = @told ||= {}

    %i[desc version license url sha256].each { |name| define_method(name) { |value| told[name] = value } }
    { on_linux: /linux/, on_macos: /darwin/ }.each do |name, system|
      define_method(name) { |&block| block.call if RbConfig::CONFIG["host_os"].match?(system) }
    end
    { on_intel: /x86_64/, on_arm: /aarch64|arm64/ }.each do |name, processor|
      define_method(name) { |&block| block.call if RbConfig::CONFIG["host_cpu"].match?(processor) }
    end

    def test(&block) = told[:test] = block
  end

  attr_reader :prefix

  def initialize(prefix) = @prefix = Pathname(prefix)

  def bin = prefix / "bin"

  def version = self.class.told.fetch(:version)

  def shell_output(command)
    output, status = Open3.capture2(command)
    status.success? ? output : raise("#{command} ended with #{status.exitstatus}")
  end

  def assert_match(expected, actual)
    actual.include?(expected) or raise("#{expected} is not in #{actual}")
  end
end

formula, archives, prefix = ARGV
load formula
told = Formula.only.told
archive = File.join(File.expand_path(archives), File.basename(told.fetch(:url)))
told.fetch(:sha256) == Digest::SHA256.file(archive).hexdigest or abort("#{archive} has another digest")
installed = Formula.only.new(File.expand_path(prefix))
Dir.mktmpdir do |folder|
  system("tar", "--extract", "--file", archive, "--directory", folder, exception: true)
  # Homebrew enters a folder that is alone in an archive.
  Dir.chdir(Dir.children(folder).map { |name| File.join(folder, name) }.then { |all| all.one? ? all.first : folder }) { installed.install }
end
installed.instance_eval(&told.fetch(:test))
